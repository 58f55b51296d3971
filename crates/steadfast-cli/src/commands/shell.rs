//! `completions` and `man`: what a shell and a manual need to know, made of the arguments
//! themselves.

use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory;

use crate::args::{Arguments, CompletionsArgs, ManArgs};
use crate::run::Exit;

/// Prints the script that completes commands in a shell.
pub fn completions(args: &CompletionsArgs, out: &mut dyn Write) -> io::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut Arguments::command(),
        "steadfast",
        &mut script,
    );
    out.write_all(&script)?;
    Ok(Exit::Done)
}

/// Prints the page of the program, or writes one for each command.
pub fn man(args: &ManArgs, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<Exit> {
    let Some(folder) = &args.dir else {
        let command = Arguments::command();
        clap_mangen::Man::new(command).render(out)?;
        return Ok(Exit::Done);
    };
    if let Err(error) = write_pages(folder) {
        let folder = folder.display();
        writeln!(
            err,
            "error: --dir: {folder} cannot be written: {error}; correct the path or its permissions"
        )?;
        return Ok(Exit::Failed);
    }
    Ok(Exit::Done)
}

fn write_pages(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(Arguments::command(), folder)
}
