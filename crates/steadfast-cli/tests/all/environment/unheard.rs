//! Nobody reads what the program says: it does what it would have done.

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

use crate::stage::{Caller, Folder, Request, until};

/// An address that nobody listens on now.
fn free() -> SocketAddr {
    let holder = TcpListener::bind("127.0.0.1:0").expect("a port");
    holder.local_addr().expect("its address")
}

/// Starts a program whose standard error has no reader.
fn unheard(mut command: Command) -> Child {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    command.stdout(Stdio::null()).stderr(writer);
    command.spawn().expect("the program is started")
}

#[test]
fn a_gateway_whose_log_nobody_reads_serves() {
    let folder = Folder::new();
    let (data, admin) = (free().to_string(), free());
    let words = ["gateway", "--to", "http://127.0.0.1:9", "--listen", &data];
    let mut command = folder.program(&words);
    command.args(["--admin", &admin.to_string()]);
    let mut child = unheard(command);
    let ready = until("a gateway that is ready, or ends", || {
        if let Some(status) = child.try_wait().expect("its status") {
            return Some(Err(status));
        }
        let answer = Caller::to(admin)?.ask(&Request::get("/readyz")).ok()?;
        (answer.status == 200).then_some(Ok(()))
    });
    let _ = child.kill();
    let _ = child.wait();
    assert_eq!(ready, Ok(()));
}

#[test]
fn a_refused_configuration_is_refused_also_where_nobody_reads_why() {
    let folder = Folder::new();
    folder.write("s.toml", "liste = 1\n");
    for words in [&["config", "check"], &["gateway"][..]] {
        let mut command = folder.program(words);
        command.args(["--config", "s.toml"]);
        let ended = unheard(command).wait().expect("its status");
        assert_eq!(ended.code(), Some(3), "{words:?}");
    }
}
