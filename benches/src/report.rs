//! From measurements to verdicts: the median of the ratios of each round.

use std::process::ExitCode;

use crate::Failure;
use crate::goals::{Bound, FIGURES, GOALS, Goal};
use crate::measured::{Measured, read};

/// By how much a run on a busy machine may miss a goal before `--check` fails.
const SLACK: f64 = 0.25;

/// One line with its numbers.
struct Row<'a> {
    goal: &'a Goal,
    ours: f64,
    reference: f64,
    /// Ascending, one a round.
    ratios: Vec<f64>,
}

/// Reads standard input and writes the table.
pub fn report(markdown: bool, check: bool) -> Result<ExitCode, Failure> {
    let measured = read()?;
    let rows: Vec<Row<'_>> = GOALS
        .iter()
        .filter_map(|goal| row(goal, &measured))
        .collect();
    let mut lines =
        vec![["", "ours", "reference", "ratio", "least..most", "goal", ""].map(str::to_owned)];
    lines.extend(rows.iter().map(cells));
    print(&lines, markdown);
    let mut figures = vec![["by itself", "median", "least..most"].map(str::to_owned)];
    figures.extend(
        FIGURES
            .iter()
            .filter_map(|figure| single(figure, &measured)),
    );
    if figures.len() > 1 {
        println!();
        print(&figures, markdown);
    }
    let missed: Vec<&str> = rows
        .iter()
        .filter(|row| !holds(row, SLACK))
        .map(|row| row.goal.what)
        .collect();
    if check && !missed.is_empty() {
        eprintln!("missed by more than a quarter: {}", missed.join("; "));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// The line of `goal`, where it was measured.
fn row<'a>(goal: &'a Goal, measured: &[Measured]) -> Option<Row<'a>> {
    let (ours, reference) = (of(measured, goal.ours), of(measured, goal.reference));
    let mut ratios: Vec<f64> = match goal.bound {
        Bound::Nothing => ours.iter().map(|one| one.value).collect(),
        Bound::AtLeast(_) | Bound::AtMost(_) | Bound::Shown => ours
            .iter()
            .filter_map(|one| {
                let other = reference.iter().find(|other| other.round == one.round)?;
                Some(one.value / other.value)
            })
            .collect(),
    };
    ratios.sort_by(f64::total_cmp);
    (!ratios.is_empty()).then(|| Row {
        goal,
        ours: median_of(&ours),
        reference: median_of(&reference),
        ratios,
    })
}

fn of<'a>(measured: &'a [Measured], name: &str) -> Vec<&'a Measured> {
    measured.iter().filter(|one| one.name == name).collect()
}

fn median_of(measured: &[&Measured]) -> f64 {
    let mut values: Vec<f64> = measured.iter().map(|one| one.value).collect();
    values.sort_by(f64::total_cmp);
    median(&values)
}

/// The middle of ascending values; of an even number, the mean of both in the middle.
fn median(ascending: &[f64]) -> f64 {
    let (half, odd) = (ascending.len() / 2, ascending.len() % 2 == 1);
    match (ascending.get(half), odd) {
        (Some(middle), true) => *middle,
        (Some(upper), false) => f64::midpoint(ascending[half - 1], *upper),
        (None, _) => f64::NAN,
    }
}

fn holds(row: &Row<'_>, slack: f64) -> bool {
    let ratio = median(&row.ratios);
    match row.goal.bound {
        Bound::AtLeast(bound) => ratio >= bound * (1.0 - slack),
        Bound::AtMost(bound) => ratio <= bound * (1.0 + slack),
        Bound::Nothing => row.ratios.iter().all(|value| *value == 0.0),
        Bound::Shown => true,
    }
}

fn cells(row: &Row<'_>) -> [String; 7] {
    let goal = row.goal;
    let wanted = match goal.bound {
        Bound::AtLeast(bound) => format!("≥ {bound}"),
        Bound::AtMost(bound) => format!("≤ {bound}"),
        Bound::Nothing => "0".to_owned(),
        Bound::Shown => String::new(),
    };
    let verdict = match goal.bound {
        Bound::Shown => "",
        _ if holds(row, 0.0) => "holds",
        _ => "falls short",
    };
    let (ratio, range) = match goal.bound {
        Bound::Nothing => (String::new(), String::new()),
        _ => (
            format!("{:.2}", median(&row.ratios)),
            range(&row.ratios, |r| format!("{r:.2}")),
        ),
    };
    let reference = if goal.reference.is_empty() {
        String::new()
    } else {
        with_unit(goal.reference, row.reference)
    };
    let what = format!("{}: {}", goal.part, goal.what);
    let ours = with_unit(goal.ours, row.ours);
    [
        what,
        ours,
        reference,
        ratio,
        range,
        wanted,
        verdict.to_owned(),
    ]
}

fn range(ascending: &[f64], show: impl Fn(f64) -> String) -> String {
    match ascending {
        [] | [_] => String::new(),
        [least, .., most] => format!("{}..{}", show(*least), show(*most)),
    }
}

fn single(figure: &(&str, &str), measured: &[Measured]) -> Option<[String; 3]> {
    let (name, what) = figure;
    let found = of(measured, name);
    let mut values: Vec<f64> = found.iter().map(|one| one.value).collect();
    values.sort_by(f64::total_cmp);
    let show = |value: f64| with_unit(name, value);
    (!values.is_empty()).then(|| {
        [
            (*what).to_owned(),
            show(median(&values)),
            range(&values, show),
        ]
    })
}

/// A value with the unit that its name ends with.
fn with_unit(name: &str, value: f64) -> String {
    let end = name.rsplit_once('_').map_or("", |(_, end)| end);
    match end {
        "s" if value >= 10_000.0 => format!("{:.1} k/s", value / 1e3),
        "s" => format!("{value:.0} /s"),
        "us" if value >= 1_000.0 => format!("{:.2} ms", value / 1e3),
        "us" => format!("{value:.1} µs"),
        "ns" if value >= 1_000.0 => format!("{:.2} µs", value / 1e3),
        "ns" => format!("{value:.0} ns"),
        "bytes" if value >= 1e6 => format!("{:.1} MB", value / 1e6),
        _ => format!("{value:.0}"),
    }
}

fn print<const N: usize>(lines: &[[String; N]], markdown: bool) {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    for (number, line) in lines.iter().enumerate() {
        if markdown {
            println!("| {} |", line.join(" | "));
            if number == 0 {
                println!("|{}", " --- |".repeat(N));
            }
            continue;
        }
        let padded: Vec<String> = line
            .iter()
            .enumerate()
            .map(|(column, cell)| format!("{cell:<width$}", width = width(column).unwrap_or(0)))
            .collect();
        println!("{}", padded.join("  ").trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured;

    fn lines(text: &str) -> Vec<Measured> {
        text.lines().filter_map(measured::parse).collect()
    }

    fn goal(bound: Bound) -> Goal {
        Goal {
            part: "p",
            what: "w",
            ours: "a_us",
            reference: "b_us",
            bound,
        }
    }

    #[test]
    fn a_goal_is_judged_by_the_median_of_the_ratios_of_its_rounds() {
        // The ratio of the medians would be 1; round 4 has no counterpart and does not count.
        let measured = lines(
            "1\ta_us\t10\n1\tb_us\t20\n2\ta_us\t20\n2\tb_us\t10\n3\ta_us\t30\n3\tb_us\t60\n\
             4\ta_us\t999",
        );
        let least = goal(Bound::AtLeast(0.6));
        let row = row(&least, &measured).expect("a row");
        assert_eq!(row.ratios, [0.5, 0.5, 2.0]);
        assert!(!holds(&row, 0.0) && holds(&row, SLACK));
        assert_eq!(
            cells(&row)[3..],
            ["0.50", "0.50..2.00", "≥ 0.6", "falls short"]
        );
    }

    #[test]
    fn nothing_means_nothing_in_every_round() {
        let none = goal(Bound::Nothing);
        let row = row(&none, &lines("1\ta_us\t0\n2\ta_us\t1\n3\ta_us\t0")).expect("a row");
        assert!(!holds(&row, SLACK));
    }

    #[test]
    fn what_was_not_measured_has_no_row() {
        assert!(row(&goal(Bound::Shown), &lines("1\ta_us\t1\n2\tb_us\t1")).is_none());
        assert!(measured::parse("1\ta").is_none() && measured::parse("1\ta\t2\t3").is_none());
    }
}
