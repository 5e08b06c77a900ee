//! `plimsoll size`: what to buy for a load, ranked by what it costs an hour.
//!
//! A front over the knees of settings side by side ([`super::knee`]): candidates are its axes, replicas are counted as `--for-rate`
//! counts them, and the ranking is its own. What is added is who the candidates are (`candidates.rs`, `said.rs`), what is wanted of them
//! (`demand.rs`), which are not worth a search (`bounds.rs`), and the commands that look at the answer again (`again.rs`).

mod again;
mod apart;
mod bounds;
mod candidates;
mod demand;
mod said;
mod words;

use std::io::Write;
use std::process::ExitCode;

use serde_json::Value;

use self::bounds::Bound;
use self::candidates::Candidates;
use self::demand::Demand;
pub(super) use self::words::own_prices;
use super::knee::{self, Asked, Bracket, Setting, search_all};
use super::outputs::{Format, OutputFlags, Outputs, Writer};
use super::plan::{AxisFlags, Plan, Planned};
use super::reported::unread;
use super::terminal::Terminal;
use super::{Exit, cells, files, interrupt, mix, rent, subject};
use crate::config::axes::Cell;
use crate::config::flags::ScenarioFlags;
use crate::config::{Diagnostic, Diagnostics, Resolved};
use crate::report::Sizing;
use crate::report::knees::{self, KneeRow, Knees, Ranking};
use crate::report::purchases::{self, Config, Kept, Purchases};
use crate::sweep;

/// What to buy for.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  plimsoll size quickstart --for-rate 100
  plimsoll size meta-llama/Llama-3.1-8B-Instruct --users 2000 --think-time 45s --input-len 1024 --output-len 128 --goodput ttft:500 tpot:50
  plimsoll size quickstart --for-rate 100 --spare 1 --headroom 1.25 --prices prices.toml
  plimsoll size quickstart --for-rate 100 --gpus h100,l40s --price h100=2.10,l40s=0.80
  plimsoll size mymodel/config.json --trace chat.jsonl --slo 'p99_ttft_ms<=1000' --gpus all
  plimsoll size meta-llama/Llama-3.1-70B-Instruct --quantization fp8 --for-rate 20 --input-len 1024 --output-len 256 --goodput ttft:1000 tpot:60
  plimsoll size meta-llama/Llama-3.1-8B-Instruct --for-rate 20 --input-len 4096 --output-len 64 --goodput ttft:600 tpot:15 --gpus h100 --disaggregated

The demand is a rate (--for-rate or --request-rate), users who think (--users, --think-time), requests in flight (--request-rate inf --max-concurrency), or what a trace or scenario has of its own; --max-concurrency beside a rate is the client's limit on all replicas together. Candidates are all cards of which measurements ship, by tensor-parallel sizes 1, 2, 4 and 8; --gpus, --tensor-parallel-size and -L say others. A size that a flag, a pasted command (--serve-cmd) or a --variant says is held, and that of a scenario file is one of those that are tried. Replicas are the fewest that meet the SLO when they are simulated behind --router, with --spare more beside them; of more than 1,024 as many as their knees make, which the first line says. A setting that cannot cost less than twice the cheapest is not searched, and is named (--unpruned searches it). Prices are the list prices of the cards' profiles, with their dates, unless --price GPU=USD or --prices FILE.toml (H100-SXM-80GB = 2.49, a line a card) say yours. With -o FILE.jsonl finished settings are kept as they come, each with what is bought of it, and the table is printed: after an interruption the same command goes on from there. Exit code 3 where nothing meets the SLO, or the model fits nowhere.")]
pub struct Args {
    /// What to serve.
    #[command(flatten)]
    pub scenario: ScenarioFlags,
    /// Requests per second to buy for.
    #[arg(
        long,
        value_name = "RATE",
        allow_negative_numbers = true,
        help_heading = "Demand"
    )]
    pub for_rate: Option<f64>,
    /// Safety factor on the rate or the users: 1.25 for a quarter more than is asked for; 1 if not given.
    #[arg(
        long,
        value_name = "FACTOR",
        allow_negative_numbers = true,
        help_heading = "Demand"
    )]
    pub headroom: Option<f64>,
    /// Replicas to have beside the fewest that meet the SLO, so that as many may fail: 1 is N+1.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Demand")]
    pub spare: u64,
    /// Cards to choose from, or `all` that have a price; without it those of which measurements ship.
    #[arg(
        long,
        value_name = "GPU,…",
        value_delimiter = ',',
        help_heading = "Candidates"
    )]
    pub gpus: Vec<String>,
    /// Try prefill and decode pools of the best setting of each card, too.
    #[arg(long, help_heading = "Candidates")]
    pub disaggregated: bool,
    /// Search settings, too, that cannot cost less than twice the cheapest.
    #[arg(long, help_heading = "Candidates")]
    pub unpruned: bool,
    /// US dollars per GPU-hour of cards, a line a card: H100-SXM-80GB = 2.49.
    #[arg(long, value_name = "FILE.toml", help_heading = "Candidates")]
    pub prices: Option<String>,
    /// US dollars per GPU-hour of a card, h100=2.49; `--price h100=2.49` is the same.
    #[arg(
        long,
        value_name = "GPU=USD,…",
        value_delimiter = ',',
        help_heading = "Candidates"
    )]
    pub price_of: Vec<String>,
    /// What else to try of each.
    #[command(flatten)]
    pub axes: AxisFlags,
    /// What to write.
    #[command(flatten)]
    pub output: OutputFlags,
    /// The command as it was typed, behind its name.
    #[arg(skip)]
    pub words: Vec<String>,
}

/// Most spares that anybody keeps.
const SPARES_MAX: u64 = 1_000;

/// Runs the command.
///
/// # Errors
/// Everything that is wrong with the input, and files that cannot be written.
pub fn run(args: &Args, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    // Nothing is lost if reading ends here.
    let nothing_yet = interrupt::at_once();
    let candidates = Candidates::of(args)?;
    let asked = candidates.as_knee(args);
    let (common, input) = knee::input_of(&asked)?;
    let given = candidates.priced(knee::combinations(&asked, &common)?);
    let settings = match args.disaggregated {
        true => Candidates::together(&given),
        false => given.clone(),
    };
    drop(nothing_yet);
    let lacks_rate = common.lacks_rate();
    let mut demand: Option<Demand> = None;
    let mut sizings: Vec<Sizing> = Vec::new();
    let judge = |index: usize, resolved: &Resolved| {
        check(resolved)?;
        let own = Demand::of(args, resolved, lacks_rate)?;
        sizings.push(own.wanted(args.spare).of(resolved, &settings[index].document)?);
        demand.get_or_insert(own);
        Ok(())
    };
    let Some(mut plan) = Plan::of(settings.clone(), (0, 1), judge)? else {
        terminal.notes(&["interrupted before any setting was searched".to_owned()]);
        return Ok(Exit::Interrupted.into());
    };
    for cell in &mut plan.runs {
        cell.resolved.precision_acts();
        cell.resolved.router_acts();
    }
    let outputs = args.output.resolve(&input.results, Writer::Size)?;
    let unread = unread(&input.document, &outputs, Writer::Size);
    say(
        &candidates,
        [&input.notes, &outputs.notes, &unread],
        &plan,
        terminal,
    );
    for cell in &mut plan.runs {
        cell.resolved.said_before(&[], &outputs.notes);
        cell.resolved.said_before(&input.notes, &input.ignored);
    }
    if args.output.dry_run {
        return cells::put(&plan, out, terminal);
    }
    outputs.check_places()?;
    terminal.notes(&outputs.told);
    let shop = Shop {
        args,
        candidates: &candidates,
        given: &given,
        settings: &settings,
        plan: &plan,
        demand: demand.as_ref(),
        sizings: &sizings,
        unread: &unread,
    };
    shop.search(&outputs, out, terminal)
}

/// What the command cannot do for a setting.
///
/// # Errors
/// No SLO, an ideal server, replicas that come and go, and recorded conversations.
fn check(resolved: &Resolved) -> Result<(), Diagnostics> {
    if resolved.slo.is_empty() {
        let problem = Diagnostic::new("no SLO is given: what to buy is what meets one at the least cost");
        return Err(problem
            .help("give --goodput ttft:500 tpot:50 (ms per request), --slo 'p99_ttft_ms<=500', or [slo.goodput]")
            .into());
    }
    if resolved.is_ideal() {
        let problem = Diagnostic::new("an ideal server (step_time) is no machine that could be bought");
        return Err(problem
            .help("leave step_time out: cards then take what they take")
            .into());
    }
    if resolved.servers.len() > 1 {
        let problem = Diagnostic::new("size chooses replicas that are alike, and the scenario has pools");
        let help = match resolved.scenario.cluster.disaggregation {
            Some(_) => {
                "add --disaggregated: prefill and decode pools are then tried beside replicas that do both"
            }
            None => "size the traffic of each pool in a scenario of its own",
        };
        return Err(problem.help(help).into());
    }
    rent::check_for_knee(resolved)?;
    knee::refuse_recorded(resolved)
}

/// What there is to say before anything is searched, once however many settings it is true of.
fn say(candidates: &Candidates, all: [&Vec<String>; 3], plan: &Plan, terminal: &Terminal) {
    let mut notes: Vec<String> = all.into_iter().flatten().cloned().collect();
    notes.extend(candidates.notes.iter().cloned());
    for cell in &plan.runs {
        notes.extend(cell.resolved.notes.iter().cloned());
        notes.extend(knee::lengths_of_its_own(&cell.resolved));
        notes.extend(mix::scaling_note(&cell.resolved));
    }
    let mut told: Vec<String> = Vec::new();
    for note in notes {
        if !told.contains(&note) {
            told.push(note);
        }
    }
    terminal.notes(&told);
}

/// All that is known before anything is searched.
struct Shop<'a> {
    args: &'a Args,
    candidates: &'a Candidates,
    /// The settings as they were given, and as all replicas of each do both.
    given: &'a [Cell],
    settings: &'a [Cell],
    plan: &'a Plan,
    /// What is wanted; `None` where no setting can be run.
    demand: Option<&'a Demand>,
    /// The question to each setting that can be.
    sizings: &'a [Sizing],
    unread: &'a [String],
}

impl Shop<'_> {
    /// Searches and prints. With `-o FILE.jsonl` finished settings are kept as they come, and a search that was interrupted goes on
    /// where it stopped.
    fn search(
        &self,
        outputs: &Outputs,
        out: &mut dyn Write,
        terminal: &Terminal,
    ) -> anyhow::Result<ExitCode> {
        let (plan, is_jsonl) = (self.plan, outputs.format == Format::Jsonl);
        let kept = outputs.file.as_deref().filter(|_| is_jsonl);
        let bounds = self.bounds();
        // A closed loop's requests come at random where what one replica takes is looked for.
        let opened: Vec<Resolved> = (plan.runs.iter().zip(&bounds))
            .map(|(cell, bound)| demand::opened(&cell.resolved, bound.start_rate()))
            .collect();
        let asked = plan.runs.iter().zip(&opened).zip(self.sizings);
        let asked = asked.map(|((cell, resolved), sizing)| {
            let ignored = [
                &cell.resolved.ignored,
                self.unread,
                &knee::lengths_of_its_own(&cell.resolved),
            ];
            let asked = Asked {
                resolved,
                document: &self.settings[cell.index].document,
                bracket: Bracket::default(),
                sizing: Some(sizing.clone()),
                rent: None,
                ignored: ignored.concat(),
                is_bare: false,
            };
            (cell, asked)
        });
        let asked: Vec<(&Planned, Asked<'_>)> = asked.collect();
        let configs = self.configs();
        let told = |index: usize, row: &KneeRow| {
            serde_json::from_str(&crate::report::json::sized_setting(row, &configs[index]))
        };
        let beside = format!("{:?}", (self.demand, self.args.spare, self.args.unpruned));
        let cells = plan.cells(is_jsonl.then_some(&beside));
        let pruned = |index: usize, objects: &[Option<Value>]| self.pruned(&bounds, index, objects);
        let turns = bounds::turns(plan, &bounds, cells.len(), (&pruned, &told));
        let (settings, keeper) = search_all(plan, &asked, (&cells, kept), &turns, terminal)?;
        let mut objects = knee::objects(&settings, &told)?;
        knees::place(&mut objects);
        let demand = self.demand.map(Demand::told).unwrap_or_default();
        let bought = Kept::of(&mut objects, &configs, demand, self.args.spare);
        let is_cut = interrupt::is_asked();
        match is_jsonl {
            true if is_cut && kept.is_some() => {}
            true => files::put(&sweep::to_jsonl(&cells, &objects)?, outputs.file.as_deref(), out)?,
            false => self.put(&settings, configs.clone(), outputs, out, terminal)?,
        }
        if let Some(error) = keeper.error {
            let path = kept.unwrap_or_default();
            return Err(
                anyhow::Error::new(error).context(format!("cannot keep every finished setting in {path}"))
            );
        }
        if is_cut {
            terminal.notes(&[knee::interrupted(&settings, kept)]);
        }
        let all = || Ranking::of(&objects, &plan.labels(), knee::said_of_all(plan));
        if let Some(file) = kept.filter(|_| !is_cut) {
            let next = again::commands(self.args, self.demand, &bought.offers);
            out.write_all(bought.text(file, &next, terminal.width()).as_bytes())?;
        }
        if let Some(folder) = &outputs.charts {
            knee::draw(&all(), &settings, folder, terminal)?;
        }
        let is_kept = |object: &Value| object["state"] == "kept";
        Ok(match (is_cut, objects.iter().any(is_kept)) {
            (true, _) => Exit::Interrupted,
            (false, true) => Exit::Ok,
            (false, false) => Exit::NotMet,
        }
        .into())
    }

    /// The least that each setting that can be run may cost.
    fn bounds(&self) -> Vec<Bound> {
        match self.demand {
            Some(demand) => bounds::of_all(self.plan, self.sizings, demand),
            None => Vec::new(),
        }
    }

    /// Why a setting is not worth its search beside what was found before it.
    fn pruned(&self, bounds: &[Bound], index: usize, objects: &[Option<Value>]) -> Option<String> {
        let at = self
            .plan
            .runs
            .binary_search_by_key(&index, |cell| cell.index)
            .ok()?;
        (!self.args.unpruned)
            .then(|| bounds[at].why_pruned(objects))
            .flatten()
    }

    /// Writes all settings in any other form than lines of JSON.
    fn put(
        &self,
        settings: &[Setting],
        configs: Vec<Config>,
        outputs: &Outputs,
        out: &mut dyn Write,
        terminal: &Terminal,
    ) -> anyhow::Result<()> {
        let plan = self.plan;
        let rows = settings.iter().filter_map(Setting::row).cloned();
        let rows: Vec<KneeRow> = rows.collect();
        let knees = Knees {
            subject: subject::of_all(plan.runs.iter().map(|cell| &cell.resolved)),
            rows,
            price_source: knee::prices(plan),
        };
        let mut shop = Purchases::new(knees, configs, self.args.spare);
        shop.demand = self.demand.map(Demand::told).unwrap_or_default();
        shop.left_out = self.candidates.left_out.clone();
        if self.args.disaggregated && !interrupt::is_asked() {
            shop.pairs = apart::pairs(self, &shop, terminal);
        }
        shop.next = again::commands(self.args, self.demand, &shop.offers());
        let file = outputs.file.as_deref();
        let text = match outputs.format {
            Format::Csv => purchases::csv(&shop),
            Format::Md => purchases::md(&shop),
            Format::Json | Format::Jsonl => crate::report::json::purchases(&shop) + "\n",
            Format::Table => purchases::text(&shop, terminal.width().filter(|_| file.is_none())),
        };
        files::put(&text, file, out)
    }

    /// What each setting is.
    fn configs(&self) -> Vec<Config> {
        let all = self.settings.iter();
        all.map(|cell| self.candidates.config(cell)).collect()
    }

    /// The run of a row of the answer.
    fn planned(&self, row: usize) -> Option<&Planned> {
        self.plan.run(row)
    }
}
