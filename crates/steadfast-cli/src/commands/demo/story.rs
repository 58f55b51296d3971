//! The story of the demonstration, told in steps on standard error.

use std::fmt::Display;
use std::io::{self, Write};

use tokio::sync::mpsc;

/// Where the story is told, and where Enter is awaited between its steps.
pub struct Story<'a> {
    to: &'a mut dyn Write,
    enters: Option<mpsc::UnboundedReceiver<()>>,
    steps: u32,
}

impl Story<'_> {
    /// A story; with `pause` it waits for a line of standard input before each step but the first.
    pub fn new(to: &mut dyn Write, pause: bool) -> Story<'_> {
        Story {
            to,
            enters: pause.then(enters),
            steps: 0,
        }
    }

    /// The next step begins.
    pub async fn step(&mut self, title: &str) {
        self.wait().await;
        self.steps += 1;
        let number = self.steps;
        self.print(format_args!("\n{number}. {title}\n"));
    }

    /// Lines of the present step.
    pub fn say(&mut self, lines: impl Display) {
        for line in lines.to_string().lines() {
            self.print(format_args!("   {line}\n"));
        }
    }

    /// What went wrong.
    pub fn fail(&mut self, why: &dyn Display) {
        self.print(format_args!("error: {why}\n"));
    }

    /// Waits for Enter, where the story pauses and is not at its beginning. An input that has ended
    /// is not waited for.
    async fn wait(&mut self) {
        let Some(enters) = self.enters.as_mut().filter(|_| self.steps > 0) else {
            return;
        };
        let _ = write!(self.to, "   [Enter]").and_then(|()| self.to.flush());
        if enters.recv().await.is_none() {
            self.enters = None;
            self.print(format_args!(
                "\n   Standard input has ended; going on without pauses.\n"
            ));
        }
    }

    /// That nobody reads the story stops nothing.
    fn print(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = self.to.write_fmt(text).and_then(|()| self.to.flush());
    }
}

/// One message for each line of standard input. A thread of its own reads, which ends with the
/// input or with the process: a read of a terminal cannot be given up, and nothing waits for it.
fn enters() -> mpsc::UnboundedReceiver<()> {
    let (tell, told) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        while io::stdin().read_line(&mut line).is_ok_and(|read| read > 0) && tell.send(()).is_ok() {
            line.clear();
        }
    });
    told
}
