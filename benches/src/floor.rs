//! What the disk allows: appends of 4 KiB, each synced before the next.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use steadfast::clock;

use crate::{Failure, Window, measured};

/// One window.
pub fn measure(window: Window, dir: &Path) -> Result<(), Failure> {
    let mut file = File::create(dir.join("floor"))?;
    let page = [0x5a; 4096];
    let began = clock::mono_now();
    let mut syncs = 0u32;
    while clock::mono_now().since(began) < window.length() {
        file.write_all(&page)?;
        file.sync_data()?;
        syncs += 1;
    }
    let seconds = clock::mono_now().since(began).as_secs_f64();
    measured::write(
        window.round,
        "floor.syncs_per_s",
        f64::from(syncs) / seconds,
    );
    Ok(())
}
