//! What is seen while scenarios run: a line for each that ended, and one that says what runs now.

use std::io::{self, IsTerminal, Write};

use outlive_check::{Plan, Scenario, Trial, Verdict, counted};

use crate::paint::{Paint, Tone};

/// Lines for standard output, or for standard error if that has to stay clean.
pub struct Progress {
    to_stderr: bool,
    /// Whether what runs now can be written over.
    live: bool,
    paint: Paint,
    running: Vec<&'static str>,
    ended: usize,
    all: usize,
}

impl Progress {
    /// For so many scenarios.
    pub fn new(to_stderr: bool, all: usize) -> Progress {
        let terminal = match to_stderr {
            true => io::stderr().is_terminal(),
            false => io::stdout().is_terminal(),
        };
        Progress {
            to_stderr,
            live: terminal,
            paint: Paint::when(terminal),
            running: Vec::new(),
            ended: 0,
            all,
        }
    }

    /// Says that the program under test is being looked at: a first start may take a while.
    pub fn look(&self) {
        if self.live {
            let words = "starting the program under test …";
            self.write(&format!("  {}", self.paint.tone(Tone::Quiet, words)));
        }
    }

    /// Says what is tested.
    pub fn introduce(&self, plan: &Plan) {
        let (name, target) = (plan.cast.name(), plan.cast.target());
        let title = if name.is_empty() { target } else { name };
        let title = self.paint.tone(Tone::Title, &title);
        let survey = plan.cast.survey_in_words();
        let (all, seed) = (counted(plan.scenarios.len(), "scenario"), plan.seed);
        self.clear();
        self.write(&format!("{title}: {survey}\n{all}, seed {seed}\n\n"));
    }

    /// A scenario begins.
    pub fn begun(&mut self, scenario: &'static Scenario) {
        self.running.push(scenario.name);
        self.show_running();
    }

    /// A scenario has ended.
    pub fn ended(&mut self, trial: &Trial) {
        self.ended += 1;
        self.running.retain(|name| *name != trial.scenario.name);
        self.clear();
        let tone = match &trial.verdict {
            Verdict::Held => Tone::Good,
            Verdict::Broken { .. } => Tone::of(trial.scenario.level),
            Verdict::NotApplicable { .. } => Tone::Quiet,
        };
        let remark = match &trial.verdict {
            Verdict::Held => String::new(),
            Verdict::Broken { seen } => seen.clone(),
            Verdict::NotApplicable { why } => why.clone(),
        };
        let line = format!(
            "  {} {:<28} {:<6} {:<12} {:>6.2} s  {}",
            self.paint.tone(tone, trial.cell().sign()),
            trial.scenario.name,
            trial.scenario.level.word(),
            trial.scenario.failure_modes(),
            trial.took.as_secs_f64(),
            self.paint.tone(Tone::Quiet, &remark),
        );
        self.write(&format!("{}\n", line.trim_end()));
        self.show_running();
    }

    /// Takes away the line that says what runs now.
    pub fn clear(&self) {
        if self.live {
            self.write("\r\x1b[2K");
        }
    }

    fn show_running(&self) {
        if self.live && !self.running.is_empty() {
            let line = format!("{}/{}  {} …", self.ended, self.all, self.running.join(", "));
            let line: String = line.chars().take(76).collect();
            self.write(&format!(
                "\r\x1b[2K  {}",
                self.paint.tone(Tone::Quiet, &line)
            ));
        }
    }

    /// Whoever does not read the progress does not need it.
    fn write(&self, text: &str) {
        let _ = match self.to_stderr {
            true => io::stderr().write_all(text.as_bytes()),
            false => io::stdout()
                .write_all(text.as_bytes())
                .and_then(|()| io::stdout().flush()),
        };
    }
}
