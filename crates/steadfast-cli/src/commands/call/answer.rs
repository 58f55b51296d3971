//! The answer, on standard output or in a file.

use std::fs::File;
use std::io::{self, Write};

use base64::Engine;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};

use super::end::Ended;
use super::story::Story;
use crate::args::CallArgs;

/// An answer, as far as it came.
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// What has not been passed on yet.
    pub body: Bytes,
    /// The head and the first bytes of the body have been written.
    pub passed_on: bool,
}

/// Where the answer goes.
pub struct Output<'a> {
    args: &'a CallArgs,
    out: &'a mut dyn Write,
    file: Option<File>,
}

impl<'a> Output<'a> {
    /// The answer goes where `args` say, else to `out`.
    pub fn new(args: &'a CallArgs, out: &'a mut dyn Write) -> Output<'a> {
        Output {
            args,
            out,
            file: None,
        }
    }

    /// Opens the file, before anything is sent.
    pub fn open(&mut self) -> Result<(), String> {
        if let Some(path) = &self.args.output {
            let file = File::create(path).map_err(|error| {
                let path = path.display();
                format!("--output: {path} cannot be written: {error}; name another file")
            })?;
            self.file = Some(file);
        }
        Ok(())
    }

    /// A long answer is passed on as it comes. JSON without a file is one value, printed at the
    /// end.
    pub fn streams(&self) -> bool {
        self.file.is_some() || !self.args.json
    }

    /// Writes the head where it is asked for and not written yet, and a part of the body.
    pub fn pass_on(&mut self, answer: &mut Answer, part: &[u8]) -> io::Result<()> {
        if !answer.passed_on {
            answer.passed_on = true;
            self.head(answer)?;
        }
        self.body().write_all(part)
    }

    fn head(&mut self, answer: &Answer) -> io::Result<()> {
        if !self.args.include || self.args.json {
            return Ok(());
        }
        let status = answer.status;
        writeln!(self.out, "HTTP/1.1 {status}\r")?;
        for (name, value) in &answer.headers {
            write!(self.out, "{name}: ")?;
            self.out.write_all(value.as_bytes())?;
            writeln!(self.out, "\r")?;
        }
        writeln!(self.out, "\r")
    }

    fn body(&mut self) -> &mut dyn Write {
        match &mut self.file {
            Some(file) => file,
            None => self.out,
        }
    }

    /// Writes what is left of the answer that stands.
    pub fn finish(&mut self, ended: &Ended, story: &Story<'_>) -> io::Result<()> {
        if !self.args.json || self.file.is_some() {
            if let Some(answer) = &ended.answer
                && ended.whole
            {
                if !answer.passed_on {
                    self.head(answer)?;
                }
                self.body().write_all(&answer.body)?;
            }
            self.body().flush()?;
        }
        match self.args.json {
            true => writeln!(self.out, "{}", self.as_json(ended, story)),
            false => Ok(()),
        }
    }

    fn as_json(&self, ended: &Ended, story: &Story<'_>) -> Value {
        let mut told = story.as_json(ended);
        let whole = ended.answer.as_ref().filter(|_| ended.whole);
        let Some(answer) = whole else {
            return told;
        };
        let mut fields = Map::new();
        for name in answer.headers.keys() {
            let lines = answer.headers.get_all(name).iter();
            let lines: Vec<_> = lines
                .map(|v| String::from_utf8_lossy(v.as_bytes()))
                .collect();
            fields.insert(name.to_string(), json!(lines.join(", ")));
        }
        told["headers"] = Value::Object(fields);
        if self.file.is_none() {
            match std::str::from_utf8(&answer.body) {
                Ok(text) => told["body"] = json!(text),
                Err(_) => {
                    let engine = base64::engine::general_purpose::STANDARD;
                    told["body_base64"] = json!(engine.encode(&answer.body));
                }
            }
        }
        told
    }
}
