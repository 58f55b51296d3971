//! Which records a command means.

use steadfast::store::{Scan, Store};
use steadfast_core::key::{Key, Tenant};
use steadfast_core::record::{Owner, Record};
use steadfast_core::time::WallTime;

use super::{Stop, usage};
use crate::args::FilterArgs;
use crate::settings::value::length_of;

/// Records read from the store at once.
const PAGE: u32 = 500;

/// The filter as the store understands it.
pub(super) async fn scan_of(filter: &FilterArgs, store: &dyn Store) -> Result<Scan, Stop> {
    let now = store.now().await?;
    let mut scan = Scan {
        state: filter.state,
        ..Scan::default()
    };
    if let Some(text) = &filter.older_than {
        let length = length_of(text)
            .map_err(|wrong| usage(format!("--older-than: {}; {}", wrong.reason, wrong.next)))?;
        let ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        scan.updated_before = Some(WallTime::from_unix_ms(now.unix_ms().saturating_sub(ms)));
    }
    scan.locked_before = filter.expired_lease.then_some(now);
    if let Some(owner) = &filter.owner {
        let known = Owner::parse(owner);
        let known = known
            .ok_or_else(|| usage(format!("--owner {owner} is no owner, as records show it")))?;
        scan.owner = Some(known);
    }
    if let Some(key) = &filter.key {
        let known = Key::from_stored(key);
        scan.key = Some(known.ok_or_else(|| usage("--key is no key that could be stored".into()))?);
    }
    if let Some(principal) = &filter.principal {
        scan.tenant = Some(tenant_of(principal, store).await?);
    }
    Ok(scan)
}

/// A principal as records show it, or as callers send it in `Authorization`.
async fn tenant_of(principal: &str, store: &dyn Store) -> Result<Tenant, Stop> {
    if let Some(tenant) = Tenant::from_stored(principal) {
        return Ok(tenant);
    }
    let secrets = store.secrets().await?;
    Ok(Tenant::of(
        &secrets.scope,
        "authorization",
        principal.as_bytes(),
    ))
}

/// Up to `most` rows, over all pages.
pub(super) async fn matching(
    store: &dyn Store,
    scan: Scan,
    most: u32,
) -> Result<Vec<Record>, Stop> {
    let mut rows = Vec::new();
    let mut after = None;
    while rows.len() < most as usize {
        let left = most - u32::try_from(rows.len()).unwrap_or(most);
        let page = store
            .scan(Scan {
                after,
                limit: left.min(PAGE),
                ..scan.clone()
            })
            .await?;
        for why in page.unreadable {
            tracing::error!(reason = why.to_string(), "a stored record cannot be read");
        }
        rows.extend(page.rows);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(rows)
}
