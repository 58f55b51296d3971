//! Records for people: a table on a terminal, tabs between the same columns when piped.

use std::io::{self, Write};

use steadfast_core::record::Record;
use steadfast_core::time::WallTime;

const COLUMNS: [&str; 6] = ["ID", "STATE", "EFFECT", "STATUS", "UPDATED", "OPERATION"];

/// One line a record.
pub fn table(rows: &[Record], aligned: bool, out: &mut dyn Write) -> io::Result<()> {
    let lines: Vec<[String; 6]> = rows.iter().map(columns).collect();
    self::aligned(&COLUMNS, &lines, aligned, out)
}

/// One line a row: under its heads where it is aligned, else with tabs between.
pub(in crate::commands) fn aligned<const N: usize>(
    heads: &[&str; N],
    lines: &[[String; N]],
    aligned: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    if !aligned {
        return lines
            .iter()
            .try_for_each(|line| writeln!(out, "{}", line.join("\t")));
    }
    let mut widths = heads.map(str::len);
    for line in lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.len());
        }
    }
    write_line(&heads.map(str::to_owned), &widths, out)?;
    lines
        .iter()
        .try_for_each(|line| write_line(line, &widths, out))
}

fn write_line<const N: usize>(
    line: &[String; N],
    widths: &[usize; N],
    out: &mut dyn Write,
) -> io::Result<()> {
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

/// One record, with what happened to it.
pub fn record(row: &Record, out: &mut dyn Write) -> io::Result<()> {
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
        let detail = if event.detail.is_empty() {
            String::new()
        } else {
            format!(": {}", event.detail)
        };
        writeln!(
            out,
            "  {}  {} by {}{detail}",
            event.at.rfc3339(),
            event.event,
            event.by
        )?;
    }
    Ok(())
}

fn status(row: &Record) -> String {
    row.standing
        .answer
        .status()
        .map_or_else(|| "-".to_owned(), |status| status.as_u16().to_string())
}
