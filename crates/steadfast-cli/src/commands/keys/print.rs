//! Records for people: a table on a terminal, tabs between the same columns when piped.

use std::io::{self, Write};
use std::time::Duration;

use steadfast_core::record::{Event, Owner, Record};
use steadfast_core::time::WallTime;

const COLUMNS: [&str; 6] = ["ID", "STATE", "EFFECT", "STATUS", "UPDATED", "OPERATION"];

/// One line a record.
pub fn table(rows: &[Record], aligned: bool, out: &mut dyn Write) -> io::Result<()> {
    let lines: Vec<[String; 6]> = rows.iter().map(columns).collect();
    if !aligned {
        return lines
            .iter()
            .try_for_each(|line| writeln!(out, "{}", line.join("\t")));
    }
    let mut widths = COLUMNS.map(str::len);
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.len());
        }
    }
    write_line(&COLUMNS.map(str::to_owned), &widths, out)?;
    lines
        .iter()
        .try_for_each(|line| write_line(line, &widths, out))
}

fn write_line(line: &[String; 6], widths: &[usize; 6], out: &mut dyn Write) -> io::Result<()> {
    let cells: Vec<String> = line
        .iter()
        .zip(widths)
        .map(|(cell, width)| format!("{cell:<width$}"))
        .collect();
    writeln!(out, "{}", cells.join("  ").trim_end())
}

fn columns(row: &Record) -> [String; 6] {
    [
        row.id.to_string(),
        row.standing.state.to_string(),
        row.standing.effect.to_string(),
        status(row),
        row.updated_at.rfc3339(),
        row.operation.to_string(),
    ]
}

/// One record, with what happened to it, at the date `now`.
pub fn record(row: &Record, now: WallTime, out: &mut dyn Write) -> io::Result<()> {
    let standing = &row.standing;
    let date = |at: Option<WallTime>| at.map_or_else(|| "never".to_owned(), WallTime::rfc3339);
    let held = standing
        .locked_until
        .map_or_else(|| "nobody".to_owned(), WallTime::rfc3339);
    let lines = [
        ("id", row.id.to_string()),
        ("operation", row.operation.to_string()),
        ("tenant", row.tenant.as_str().to_owned()),
        ("state", standing.state.to_string()),
        ("effect", standing.effect.to_string()),
        ("status", status(row)),
        ("attempts", standing.attempts.to_string()),
        ("fence", standing.fence.to_string()),
        ("owner", standing.owner.to_string()),
        ("created", row.created_at.rfc3339()),
        ("updated", row.updated_at.rfc3339()),
        ("held until", held),
        ("expires", date(standing.expires_at)),
    ];
    for (name, value) in lines {
        writeln!(out, "{name:<11} {value}")?;
    }
    writeln!(out, "\nhistory")?;
    for event in &row.history {
        writeln!(out, "  {}", told(event, now))?;
    }
    Ok(())
}

fn status(row: &Record) -> String {
    row.standing
        .answer
        .status()
        .map_or_else(|| "-".to_owned(), |status| status.as_u16().to_string())
}

/// One thing that happened, as a person tells it: when and how long ago, what, who, what was seen.
fn told(event: &Event, now: WallTime) -> String {
    let what = match event.event {
        "compensating" => "began to undo it",
        "compensation-failed" => "not undone",
        "compensated" => "undone",
        "deferral-expired" => "given up by the queue",
        "lease-over" => "lease over",
        "looked-up" => "looked up",
        "not-settled" => "not settled",
        "operator-released" => "released",
        "taken-over" => "sent again",
        other => other,
    };
    let who = match Owner::parse(&event.by) {
        Some(owner) => format!("gateway {}", owner.instance()),
        None if event.by == "sweeper" => "the sweeper".to_owned(),
        None if event.by == "caller" => "a caller who asked again".to_owned(),
        None => event.by.clone(),
    };
    let seen = match event.detail.as_str() {
        "" => String::new(),
        detail => format!(": {detail}"),
    };
    let ago = ago(now.since(event.at));
    format!("{} ({ago})  {what} by {who}{seen}", event.at.rfc3339())
}

/// How long ago, in the largest unit that fits.
fn ago(length: Duration) -> String {
    let seconds = length.as_secs();
    let (number, unit) = match seconds {
        0 => return "just now".to_owned(),
        1..60 => (seconds, "second"),
        60..3600 => (seconds / 60, "minute"),
        3600..86_400 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {unit}{plural} ago")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_line_says_when_how_long_ago_what_who_and_what_was_seen() {
        let at = WallTime::from_unix_ms(1_700_000_000_000);
        let line = |event, by: &str, detail: &str, later: u64| {
            let (by, detail) = (by.to_owned(), detail.to_owned());
            let event = Event {
                at,
                event,
                by,
                detail,
            };
            told(&event, at.plus(Duration::from_secs(later)))
        };
        let owner = "0123456789ab-00000000000000000001";
        let table = [
            (
                line("dispatched", owner, "", 0),
                "(just now)  dispatched by gateway 0123456789ab",
            ),
            (
                line("looked-up", "sweeper", "status 404: absent", 90),
                "(1 minute ago)  looked up by the sweeper: status 404: absent",
            ),
            (
                line("looked-up", "caller", "status 200: found", 7200),
                "(2 hours ago)  looked up by a caller who asked again: status 200: found",
            ),
            (
                line("resolved", "operator (keys)", "status 201", 200_000),
                "(2 days ago)  resolved by operator (keys): status 201",
            ),
            (
                line("compensated", owner, "status 204", 1),
                "(1 second ago)  undone by gateway \
              0123456789ab: status 204",
            ),
        ];
        for (told, expected) in table {
            assert_eq!(told, format!("{} {expected}", at.rfc3339()));
        }
    }
}
