//! `call --defer`: the request goes into a queue, durably, and nothing is sent.

use std::io::{self, Write};
use std::sync::Arc;

use http::{HeaderValue, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use steadfast::clock;
use steadfast::event::RouteId;
use steadfast::server::{Call, Limits, Principal, Server, hand_over};
use steadfast_core::deadline::Deadline;
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
    let is_credential = |name: &&http::HeaderName| {
        !steadfast_core::deferral::kept(
            &[((*name).clone(), HeaderValue::from_static("x"))]
                .into_iter()
                .collect(),
            &steadfast_core::deferral::Deferral::default(),
            &KEY,
            None,
        )
        .contains_key(*name)
    };
    let dropped: Vec<&str> = asking
        .headers
        .keys()
        .filter(|name| **name != KEY)
        .filter(is_credential)
        .map(|name| name.as_str())
        .collect();
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
        let answer = hand_over(&server, call, Some(to)).await;
        let (head, body) = answer.into_parts();
        let body = body.collect().await.map(|body| body.to_bytes());
        Ok::<_, steadfast::store::StoreError>((head, body.unwrap_or_default()))
    });
    let (head, body) = match answered {
        Ok(answered) => answered,
        Err(error) => return super::super::print_store_error(&error, err),
    };
    let told: Value = serde_json::from_slice(&body).unwrap_or_default();
    let id = told["operation_id"].as_str();
    let exit = exit(head.status, &told);
    writeln!(err, "key: {key}")?;
    match (exit, id) {
        (Exit::Deferred, Some(id)) => writeln!(
            err,
            "deferred: it will be sent by `steadfast deferred run --store {url}`, and `steadfast \
             deferred show {id} --store {url}` tells how it stands"
        )?,
        _ => {
            if let Some(detail) = told["detail"].as_str() {
                writeln!(err, "{detail}")?;
            }
        }
    }
    match (args.json, exit, id) {
        (true, ..) => {
            let told = json!({
                "outcome": match exit {
                    Exit::Deferred => "deferred",
                    Exit::Unknown => "unknown",
                    Exit::Done => "done",
                    _ => "refused",
                },
                "status": head.status.as_u16(),
                "operation_id": id,
                "key": key,
            });
            writeln!(out, "{told}")?;
        }
        (false, Exit::Deferred, Some(id)) => writeln!(out, "{id}")?,
        // What an earlier one with this key came to.
        (false, ..) => out.write_all(&body)?,
    }
    Ok(exit)
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
