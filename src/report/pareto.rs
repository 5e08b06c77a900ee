//! A sweep's frontier: how many tokens a second GPUs make against how many each user gets, and which settings nobody beats in both.
//!
//! A user gets `1 / TPOT` output tokens a second, by the median (InferenceX's interactivity; what AIPerf calls output token throughput per
//! user); a GPU makes the output tokens a second of all divided by the GPUs, or a dollar those of an hour by what the hour costs. More is
//! better of either, so that what is above and to the right is. Runs that differ in their seed alone are one setting, told by their mean.
//!
//! Law: no setting on the frontier gives a user and a GPU less than another, and each that is not is beaten in both by one that is. Left
//! out: settings without a steady figure (overload), beyond the SLO, or whose answers leave whole; how they are off by chance is told of
//! output alone, so that a setting that chance may lift onto the frontier is named beside it.

#[cfg(test)]
mod tests;

use super::figures::{counted, significant, time};
use super::page::{panels, wrapped};
use super::sweep::{SweepRow, remarks};
use super::sweep_answer::setting::{Labels, Setting, apart_from_seeds, named};
use super::sweep_layout::is_named;
use super::sweep_view::{self, standing};
use super::tables::{Column, markdown, table};
use super::text_sizing::dollars;
pub use crate::sweep::Standing;
use crate::sweep::{Offer, frontier};

/// What tokens are counted for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measure {
    /// Each GPU.
    #[default]
    Gpu,
    /// Each dollar that the GPUs cost.
    Dollar,
}

impl Measure {
    /// `tok/s/GPU`.
    pub(super) fn head(self) -> &'static str {
        match self {
            Measure::Gpu => "tok/s/GPU",
            Measure::Dollar => "M tok/$",
        }
    }

    /// `tok/s per GPU`.
    fn unit(self) -> &'static str {
        match self {
            Measure::Gpu => "tok/s per GPU",
            Measure::Dollar => "M tok per $",
        }
    }
}

/// One setting.
#[derive(Clone, Debug)]
pub struct Point<'r, 's> {
    setting: Setting<'r, 's>,
    /// Output tokens a second that a user gets.
    pub user: f64,
    /// Output tokens, a second of a GPU or in millions a dollar.
    pub made: f64,
    /// The most that `made` may be, by chance.
    high: f64,
    /// Where it stands.
    pub standing: Standing,
}

impl Point<'_, '_> {
    /// What is set, without how hard it is loaded.
    #[must_use]
    pub fn server(&self) -> String {
        let labels: Labels = self
            .setting
            .labels
            .iter()
            .filter(|set| !is_load(&set.0))
            .cloned()
            .collect();
        named(&labels)
    }

    /// How hard it is loaded: `64`; nothing where the load is not varied.
    #[must_use]
    pub fn load(&self) -> Option<String> {
        let loads = self.setting.labels.iter().filter(|set| is_load(&set.0));
        let values: Vec<&str> = loads.map(|(_, value)| value.as_str()).collect();
        (!values.is_empty()).then(|| values.join(", "))
    }

    /// What its load is called: `max-concurrency`.
    #[must_use]
    pub fn load_axis(&self) -> Option<String> {
        let loads = self.setting.labels.iter().filter(|set| is_load(&set.0));
        let names: Vec<&str> = loads.map(|(axis, _)| axis.as_str()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// Whether its figures are those of a settled run.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let is_settled = |run: &SweepRow<'_>| standing(run) == sweep_view::Standing::Settled;
        self.setting.simulated().all(is_settled)
    }

    fn offer(&self) -> Offer {
        Offer {
            first: self.user,
            second: self.made,
            second_high: self.high,
        }
    }

    fn mean(&self, key: &str) -> Option<f64> {
        self.setting.mean(|run| run.named(key))
    }
}

/// All settings of a sweep that have a place, and why others have none.
#[derive(Clone, Debug)]
pub struct Frontier<'r, 's> {
    /// What tokens are counted for.
    pub measure: Measure,
    /// From the one that gives a user most.
    pub points: Vec<Point<'r, 's>>,
    /// Reason and number of settings, both in words.
    left_out: Vec<String>,
    rows: &'r [SweepRow<'s>],
}

/// Whether an axis says how hard a server is loaded, and nothing of what it is.
#[must_use]
pub(super) fn is_load(axis: &str) -> bool {
    let loads = ["request_rate", "max_concurrency", "users"];
    loads.iter().any(|load| is_named(axis, load))
}

/// Why a setting has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    NotRun,
    DoesNotFit,
    Refused,
    Unstable,
    BreaksSlo,
    Whole,
    NoGpu,
    NoPrice,
}

impl Left {
    const ALL: [Left; 8] = [
        Left::NotRun,
        Left::DoesNotFit,
        Left::Refused,
        Left::Unstable,
        Left::BreaksSlo,
        Left::Whole,
        Left::NoGpu,
        Left::NoPrice,
    ];

    /// Of one, and of several.
    fn words(self) -> [&'static str; 2] {
        match self {
            Left::NotRun => ["was not run", "were not run"],
            Left::DoesNotFit => ["does not fit", "do not fit"],
            Left::Refused => ["is refused", "are refused"],
            Left::Unstable => ["is unstable", "are unstable"],
            Left::BreaksSlo => ["misses the SLO", "miss the SLO"],
            Left::Whole => ["has no gaps between tokens", "have no gaps between tokens"],
            Left::NoGpu => ["runs on no GPU", "run on no GPU"],
            Left::NoPrice => ["has no price", "have no price"],
        }
    }
}

impl<'r, 's> Frontier<'r, 's> {
    /// Of a sweep's runs.
    #[must_use]
    pub fn of(rows: &'r [SweepRow<'s>], measure: Measure) -> Frontier<'r, 's> {
        let mut points = Vec::new();
        let mut left = Vec::new();
        for setting in apart_from_seeds(rows) {
            match place(setting, measure) {
                Ok(point) => points.push(point),
                Err(why) => left.push(why),
            }
        }
        let offers: Vec<Offer> = points.iter().map(Point::offer).collect();
        let standings = frontier(&offers);
        for (point, standing) in points.iter_mut().zip(standings) {
            point.standing = standing;
        }
        points.sort_by(|a, b| b.user.total_cmp(&a.user).then(a.made.total_cmp(&b.made)));
        let counts = Left::ALL.map(|why| (why, left.iter().filter(|own| **own == why).count()));
        let told = counts.into_iter().filter(|(_, number)| *number > 0);
        Frontier {
            measure,
            points,
            left_out: told
                .map(|(why, number)| format!("{number} {}", why.words()[usize::from(number > 1)]))
                .collect(),
            rows,
        }
    }

    /// What an hour of a GPU costs, where it costs the same in all runs.
    #[must_use]
    pub fn usd_per_gpu_hour(&self) -> Option<f64> {
        let simulated = self.rows.iter().filter(|row| row.is_simulated());
        let each = simulated.map(|row| Some(row.named("usd_per_hour")? / row.gpus()?));
        let each: Vec<f64> = each.collect::<Option<_>>()?;
        let first = *each.first()?;
        let is_same = |usd: &f64| (usd - first).abs() <= 1e-9 * first;
        each.iter().all(is_same).then_some(first)
    }

    /// How many stand so.
    #[must_use]
    pub fn count(&self, standing: Standing) -> usize {
        self.points
            .iter()
            .filter(|point| point.standing == standing)
            .count()
    }

    /// The settings on the frontier, from the one that gives a user most.
    pub fn front(&self) -> impl Iterator<Item = &Point<'r, 's>> {
        self.points
            .iter()
            .filter(|point| point.standing == Standing::Front)
    }

    /// The first line: how many are on it, and its two ends.
    #[must_use]
    pub fn answer(&self) -> String {
        let unfinished = self.rows.iter().filter(|row| !row.is_finished()).count();
        let interrupted = match unfinished {
            0 => String::new(),
            _ => format!(
                "INTERRUPTED: {} of {} finished; ",
                self.rows.len() - unfinished,
                counted(self.rows.len() as u64, "run")
            ),
        };
        let all = self.points.len();
        let unit = self.measure.unit();
        let end = |point: &Point<'_, '_>| {
            let at = named(&point.setting.labels);
            let at = if at.is_empty() { at } else { format!(" ({at})") };
            (significant(point.user), significant(point.made), at)
        };
        let front: Vec<_> = self.front().map(end).collect();
        let told = match &front[..] {
            [] => format!(
                "no setting has a place on the frontier: {}",
                self.left_out.join("; ")
            ),
            [(user, made, at)] => format!(
                "one of {} beats all others, in tok/s per user and {unit}: {user} and {made}{at}",
                counted(all as u64, "setting")
            ),
            [first, .., last] => format!(
                "{} of {} are on the frontier, from {} tok/s per user and {} {unit}{} to {} and {}{}",
                front.len(),
                counted(all as u64, "setting"),
                first.0,
                first.1,
                first.2,
                last.0,
                last.1,
                last.2,
            ),
        };
        interrupted + &told + &self.undecided()
    }

    /// Of how many on the frontier it is not decided whether they keep the SLO.
    fn undecided(&self) -> String {
        let (mut all, mut open) = (0, 0);
        for point in self.front() {
            all += 1;
            open += usize::from(point.setting.simulated().any(SweepRow::is_open));
        }
        match open {
            0 => String::new(),
            open if open == all => "; of none is it decided whether it keeps the SLO".to_owned(),
            open => format!("; of {open} it is not decided whether they keep the SLO"),
        }
    }

    /// What became of the others.
    fn beside(&self) -> Option<String> {
        let near = self.count(Standing::Near);
        let beaten = near + self.count(Standing::Beaten);
        let mut told = Vec::new();
        if beaten > 0 {
            let gives = if beaten == 1 { "gives" } else { "give" };
            let made = match self.measure {
                Measure::Gpu => "a GPU",
                Measure::Dollar => "a dollar",
            };
            let by_chance = match near {
                0 => String::new(),
                near => format!(" ({near} of them, ○, by no more than chance)"),
            };
            told.push(format!(
                "{beaten} {gives} a user and {made} no more than another{by_chance}"
            ));
        }
        if !self.points.is_empty() {
            told.extend(self.left_out.iter().cloned());
        }
        (!told.is_empty()).then(|| format!("of the others: {}", told.join("; ")))
    }

    /// The settings on the frontier, and those that chance may lift there.
    fn cells(&self) -> (Vec<Column>, Vec<Vec<String>>) {
        let shown: Vec<&Point<'_, '_>> = self
            .points
            .iter()
            .filter(|point| point.standing != Standing::Beaten)
            .collect();
        let axes = self
            .points
            .first()
            .map_or(&[][..], |point| &point.setting.labels[..]);
        let has_cost = shown
            .iter()
            .any(|point| point.mean("usd_per_million_output_tokens").is_some());
        let mut columns = vec![Column::left("")];
        columns.extend(axes.iter().map(|(axis, _)| Column::left(axis)));
        let heads = [
            "tok/s/user",
            self.measure.head(),
            "out tok/s",
            "TTFT p50",
            "p99",
            "TPOT p50",
        ];
        columns.extend(heads.map(Column::right));
        columns.extend(has_cost.then(|| Column::right("$/M out")));
        columns.push(Column::left("state"));
        let line = |point: &&Point<'_, '_>| {
            let mark = if point.standing == Standing::Front {
                "●"
            } else {
                "○"
            };
            let told =
                |key: &str, how: fn(f64) -> String| point.mean(key).map_or_else(|| "–".to_owned(), how);
            let millis = |value: f64| time(value / 1e3);
            let mut cells = vec![mark.to_owned()];
            cells.extend(point.setting.labels.iter().map(|(_, value)| value.clone()));
            cells.extend([significant(point.user), significant(point.made)]);
            cells.push(told("output_throughput", significant));
            cells.extend(["median_ttft_ms", "p99_ttft_ms", "median_tpot_ms"].map(|key| told(key, millis)));
            cells.extend(has_cost.then(|| told("usd_per_million_output_tokens", dollars)));
            let states: Vec<String> = point.setting.simulated().map(SweepRow::state).collect();
            let differs = states.iter().any(|state| *state != states[0]);
            cells.push(match differs {
                true => format!("{} and others", states[0]),
                false => states.first().cloned().unwrap_or_default(),
            });
            cells
        };
        (columns, shown.iter().map(line).collect())
    }

    /// What the settings that are shown rest on.
    fn remarks(&self, columns: &[Column]) -> Vec<String> {
        let shown = self
            .points
            .iter()
            .filter(|point| point.standing != Standing::Beaten);
        let runs: Vec<SweepRow<'_>> = shown
            .flat_map(|point| point.setting.simulated().cloned())
            .collect();
        remarks(&runs, columns)
    }

    /// Writes answer and table; where it is wider than `width` columns it is told in several, each with the axes.
    #[must_use]
    pub fn text(&self, width: Option<usize>) -> String {
        let (columns, cells) = self.cells();
        let mut lines: Vec<String> = self.beside().into_iter().collect();
        lines.extend(self.remarks(&columns));
        let Some(width) = width else {
            let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let table = if cells.is_empty() {
                String::new()
            } else {
                table(&columns, &cells)
            };
            return format!("{}\n{table}{lines}", self.answer());
        };
        let keys = 1 + self.points.first().map_or(0, |point| point.setting.labels.len());
        let lines: String = lines.iter().map(|line| wrapped("", "  ", line, width)).collect();
        let table = match cells.is_empty() {
            true => String::new(),
            false => panels(&columns, &cells, keys, width),
        };
        wrapped("", "  ", &self.answer(), width) + &table + &lines
    }

    /// The same in Markdown.
    #[must_use]
    pub fn md(&self) -> String {
        let (columns, cells) = self.cells();
        let mut lines: Vec<String> = self.beside().into_iter().collect();
        lines.extend(self.remarks(&columns));
        let table = if cells.is_empty() {
            String::new()
        } else {
            markdown(&columns, &cells)
        };
        let paragraphs = [format!("{}\n", self.answer()), table, lines.join("\n\n")];
        let kept: Vec<String> = paragraphs.into_iter().filter(|text| !text.is_empty()).collect();
        kept.join("\n").trim_end().to_owned() + "\n"
    }
}

/// A setting's place, or why it has none.
fn place<'r, 's>(setting: Setting<'r, 's>, measure: Measure) -> Result<Point<'r, 's>, Left> {
    let runs = &setting.runs;
    let any = |is_so: fn(&SweepRow<'_>) -> bool| runs.iter().any(|run| is_so(run));
    let left = [
        (any(|run| !run.is_finished()), Left::NotRun),
        (any(|run| run.is_misfit()), Left::DoesNotFit),
        (any(|run| run.is_refused()), Left::Refused),
        (
            any(|run| standing(run) == sweep_view::Standing::Unstable),
            Left::Unstable,
        ),
        (any(|run| run.breaks() && !run.is_open()), Left::BreaksSlo),
    ];
    if let Some((_, why)) = left.into_iter().find(|(is_so, _)| *is_so) {
        return Err(why);
    }
    let user = setting.mean(|run| run.tokens_per_user()).ok_or(Left::Whole)?;
    let (value, _, high) = setting.served.map(|served| served.output).ok_or(Left::Whole)?;
    let made = match measure {
        Measure::Gpu => setting.mean(|run| run.tokens_per_gpu()).ok_or(Left::NoGpu),
        Measure::Dollar => setting
            .mean(|run| Some(1.0 / run.named("usd_per_million_output_tokens")?))
            .ok_or(Left::NoPrice),
    };
    let made = made?;
    Ok(Point {
        user,
        made,
        high: made * high / value,
        standing: Standing::Beaten,
        setting,
    })
}
