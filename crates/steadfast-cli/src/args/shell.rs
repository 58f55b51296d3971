//! What can be typed after `steadfast completions` and `steadfast man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// `steadfast completions`
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  steadfast completions bash > ~/.local/share/bash-completion/completions/steadfast
  steadfast completions zsh > ~/.zfunc/_steadfast
  steadfast completions fish > ~/.config/fish/completions/steadfast.fish")]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// `steadfast man`
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  steadfast man | man -l -
  steadfast man --dir /usr/local/share/man/man1")]
pub struct ManArgs {
    /// Write one page for each command into this folder, which is made where it is missing
    ///
    /// steadfast.1, steadfast-keys-list.1 and so on; pages that are there already are replaced.
    #[arg(short = 'o', long = "dir", value_name = "FOLDER")]
    pub dir: Option<PathBuf>,
}
