//! `call --defer`: the request goes into a queue, durably, and nothing is sent.

use std::io::{self, Write};
use std::sync::Arc;

use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use steadfast::clock;
use steadfast::event::RouteId;
use steadfast::server::{Call, Limits, Principal, Server, hand_over};
use steadfast::store::StoreError;
use steadfast_core::deadline::Deadline;
use steadfast_core::deferral::{self, Deferral};
use steadfast_core::key::{Key, KeyRules};
use steadfast_core::policy::{Idempotency, OnUnknown, RoutePolicy};

use super::super::deferred::PRINCIPAL;
use super::ask::{Asking, KEY};
use crate::args::CallArgs;
use crate::commands::config::refuse;
use crate::commands::keys::fresh_key;
use crate::run::Exit;
use crate::settings::environment::Environment;
use crate::settings::store as store_of;
use crate::stores::{Open, open};

/// Hands it over; the answer goes to the first place, the story to the second.
pub(super) fn run(
    args: &CallArgs,
    asking: &Asking,
    environment: &Environment,
    (out, err): (&mut dyn Write, &mut dyn Write),
) -> io::Result<Exit> {
    let url = match store_of(None, args.store.as_deref(), environment) {
        Ok(url) => url,
        Err(faults) => return refuse(&faults, err),
    };
    let store = match open(&url, Open::Prepare) {
        Ok(store) => store,
        Err(error) => {
            writeln!(err, "error: --store {url}: {error}; nothing was sent")?;
            return Ok(Exit::Configuration);
        }
    };
    let (call, key) = match call(asking) {
        Ok(call) => call,
        Err(wrong) => {
            writeln!(err, "error: {wrong}; nothing was sent")?;
            return Ok(Exit::Usage);
        }
    };
    let dropped = not_kept(asking);
    if !dropped.is_empty() {
        let dropped = dropped.join(", ");
        writeln!(
            err,
            "not kept: {dropped}; give them to `steadfast deferred run -H`"
        )?;
    }
    let to = asking.target.to_string();
    let answered = super::super::runtime()?.block_on(async {
        let server = Server::new(store, Limits::default()).await?;
        let (head, body) = hand_over(&server, call, Some(to)).await.into_parts();
        let body = body.collect().await.map(|body| body.to_bytes());
        Ok::<_, StoreError>((head.status, body.unwrap_or_default()))
    });
    let (status, body) = match answered {
        Ok(answered) => answered,
        Err(error) => return super::super::print_store_error(&error, err),
    };
    let told: Value = serde_json::from_slice(&body).unwrap_or_default();
    let exit = exit(status, &told);
    let id = told["operation_id"].as_str();
    writeln!(err, "key: {key}")?;
    if let (Exit::Deferred, Some(id)) = (exit, id) {
        writeln!(
            err,
            "deferred: it will be sent by `steadfast deferred run --store {url}`, and `steadfast \
             deferred show {id} --store {url}` tells how it stands"
        )?;
    } else if let Some(detail) = told["detail"].as_str() {
        writeln!(err, "{detail}")?;
    }
    if args.json {
        let (outcome, status) = (outcome(exit), status.as_u16());
        let told = json!({
            "outcome": outcome, "status": status, "operation_id": id, "key": key,
        });
        writeln!(out, "{told}")?;
    } else if let (Exit::Deferred, Some(id)) = (exit, id) {
        writeln!(out, "{id}")?;
    } else {
        // What an earlier one with this key came to.
        out.write_all(&body)?;
    }
    Ok(exit)
}

/// The word for what came of it, in JSON.
fn outcome(exit: Exit) -> &'static str {
    match exit {
        Exit::Deferred => "deferred",
        Exit::Unknown => "unknown",
        Exit::Done => "done",
        _ => "refused",
    }
}

/// Fields that were typed and are not kept, the key aside.
fn not_kept(asking: &Asking) -> Vec<&str> {
    let kept = deferral::kept(&asking.headers, &Deferral::default(), &KEY, None);
    let gone = asking
        .headers
        .keys()
        .filter(|name| !kept.contains_key(*name));
    gone.filter(|name| **name != KEY)
        .map(|name| name.as_str())
        .collect()
}

/// The request as the queue is asked to keep it, and its key.
fn call(asking: &Asking) -> Result<(Call, String), String> {
    let text = asking.key.clone().unwrap_or_else(fresh_key);
    let shape = KeyRules {
        min_entropy_bits: 0,
        ..KeyRules::default()
    };
    let key = Key::parse([text.as_bytes()], &shape).map_err(|error| format!("--key: {error}"))?;
    let key = key.ok_or("--key: it is empty; `steadfast keys new` makes one")?;
    let mut request = Request::new(());
    *request.method_mut() = asking.method.clone();
    *request.uri_mut() = asking.uri.clone();
    *request.headers_mut() = asking.headers.clone();
    request.headers_mut().remove(&KEY);
    let (parts, ()) = request.into_parts();
    let target = asking
        .uri
        .path_and_query()
        .map_or("/", |target| target.as_str());
    let policy = RoutePolicy {
        idempotency: Idempotency {
            on_unknown: match asking.honours_key() {
                true => OnUnknown::Repeat,
                false => OnUnknown::Hold,
            },
            ..Idempotency::default()
        },
        ..RoutePolicy::default()
    };
    let call = Call {
        target: target.to_owned(),
        parts,
        body: asking.body.clone(),
        key,
        // One key is one operation at one service.
        principal: Principal {
            rule: PRINCIPAL.to_owned(),
            kind: PRINCIPAL.to_owned(),
            value: asking.target.to_string().into(),
        },
        policy: Arc::new(policy),
        deadline: Deadline::after(clock::mono_now(), asking.deadline),
        route: RouteId::default(),
    };
    Ok((call, text))
}

/// The exit code of the answer that the queue gave.
fn exit(status: StatusCode, told: &Value) -> Exit {
    match (status.as_u16(), told["effect"].as_str()) {
        (202, _) => Exit::Deferred,
        (409 | 503, Some("unknown")) => Exit::Unknown,
        (503, Some("none")) => Exit::NothingExecuted,
        (400..=499, _) => Exit::ClientError,
        (500.., _) => Exit::ServerError,
        _ => Exit::Done,
    }
}
