//! A gateway whose store fails as planned: this test binary, run once more as that gateway, so that
//! the released program needs no way to fail on purpose.

use std::path::Path;
use std::sync::Arc;

use steadfast::store::faulty::{Faulty, Plan};
use steadfast::store::sqlite::Sqlite;
use steadfast_cli::gateway::run::{Sockets, run};
use steadfast_cli::settings::address::StoreUrl;
use steadfast_cli::settings::environment::Environment;
use steadfast_cli::settings::from_file;
use steadfast_cli::settings::top::Flags;

use crate::stage::{Died, Folder, Gateway};

const CONFIG: &str = "CRASHING_GATEWAY_CONFIG";
const PLAN: &str = "CRASHING_GATEWAY_PLAN";

/// Starts it in `folder`, with the configuration `s.toml`.
pub fn start(folder: &Folder, plan: &str) -> Result<Gateway, Died> {
    let program = std::env::current_exe().expect("this program");
    let mut command = folder.command(program.to_str().expect("its path"));
    command.args(["--exact", "crash::child", "--nocapture"]);
    command.env(CONFIG, "s.toml").env(PLAN, plan);
    Gateway::start(command)
}

/// What that process does. Any other is not asked to do anything.
pub fn run_when_asked() {
    let environment = Environment::of_process();
    let variable = |name| environment.get(name).flatten();
    let (Some(config), Some(plan)) = (variable(CONFIG), variable(PLAN)) else {
        return;
    };
    let plan: Plan = plan.parse().expect("a plan");
    let flags = Flags::default();
    let settings = from_file(Path::new(config), &flags, &environment).expect("a configuration");
    let StoreUrl::Sqlite(path) = &settings.top.store else {
        panic!("this gateway keeps its records in a file");
    };
    // At a crash the process aborts: nothing is flushed, closed or told, as after `kill -9`.
    let store = Arc::new(Faulty::new(Sqlite::open(path).expect("a store"), plan));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let served = runtime.expect("a runtime").block_on(async {
        let sockets = Sockets::bind(&settings).await.expect("ports");
        let (data, admin) = sockets.addresses().expect("addresses");
        eprintln!("steadfast listens on http://{data}, for operators on http://{admin}");
        run(&settings, store, sockets, std::future::pending()).await
    });
    served.expect("a start");
}
