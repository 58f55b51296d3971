//! The example configuration is one that this build runs.

use std::process::Command;

use crate::tidy::root;

#[test]
fn the_example_configuration_can_be_run() {
    let checked = Command::new(env!("CARGO_BIN_EXE_steadfast"))
        .args(["config", "check", "--config", "examples/steadfast.toml"])
        .env_clear()
        .current_dir(root())
        .output()
        .expect("the program runs");
    let told = String::from_utf8_lossy(&checked.stderr);
    assert_eq!(checked.status.code(), Some(0), "{told}");
    let said = String::from_utf8_lossy(&checked.stdout);
    assert_eq!(said, "examples/steadfast.toml: ok, 3 routes\n");
}
