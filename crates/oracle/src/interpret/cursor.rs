//! Cursor loops: chains of frames, each of which claims rows until there are none.

use noetl_playbook::model::{FailureMode, Setting};
use noetl_playbook::template::{RenderError, Scope};
use noetl_types::{EventType, Json};

use super::machine::Machine;
use crate::names::StepValue;
use crate::outcome::{ErrorKind, TaskError};
use crate::pipeline::{Command, Failed, Progress, execute_frame};

/// Rows of a frame that does not say.
const DEFAULT_ROWS: u64 = 1;

/// A cursor loop under way.
#[derive(Debug, Clone, Default)]
pub(super) struct FrameRun {
    max_rows: usize,
    /// The number of the next frame.
    next: usize,
    /// Frames that are open.
    open: usize,
    /// Rows that were claimed, and frames that had any.
    rows: usize,
    frames: usize,
    /// Rows that failed, where failures are tolerated.
    failed: usize,
    /// Why rows failed, and in which frames, where failures are tolerated.
    errors: Vec<(usize, Failed)>,
    /// Why the first failed frame failed.
    fault: Option<Failed>,
    /// Whether a chain could not go on because the run has failed elsewhere.
    cut: bool,
}

impl<'p> Machine<'p> {
    /// Starts the chains of a cursor loop.
    pub(super) fn start_cursor(&mut self, step: usize) {
        let Some((looping, run)) = self
            .step(step)
            .looping
            .as_ref()
            .zip(self.running.get(&step))
        else {
            return;
        };
        let scope = self.view(run).names(&self.step(step).name.value).scope();
        let width = looping
            .spec
            .max_in_flight
            .as_ref()
            .map(|width| &width.value);
        let settings = count(width, 1, &scope).and_then(|width| {
            let rows = count(looping.spec.frame.max_rows.as_ref(), DEFAULT_ROWS, &scope)?;
            Ok((width, rows))
        });
        let (width, max_rows) = match settings {
            Ok((Some(width), Some(rows))) => (width, rows),
            Ok(_) => {
                let error = TaskError::new(ErrorKind::Schema, "a width must be at least 1");
                self.fail(step, Failed::of(&error));
                return;
            }
            Err(error) => {
                self.fail_uncaught(step, &Failed::template(&error));
                return;
            }
        };
        if let Some(run) = self.running.get_mut(&step) {
            run.frames = Some(FrameRun {
                max_rows,
                ..FrameRun::default()
            });
        }
        for _ in 0..width {
            self.issue_frame(step);
        }
    }

    fn issue_frame(&mut self, step: usize) {
        let Some(run) = self.running.get_mut(&step) else {
            return;
        };
        let Some(frames) = run.frames.as_mut() else {
            return;
        };
        let frame = frames.next;
        frames.next += 1;
        frames.open += 1;
        let run = run.clone();
        let view = self.view(&run);
        let number = self.next_number();
        self.open.push(Command {
            number,
            step: self.step(step),
            run: self.steps[step].runs,
            item: None,
            frame: Some(frame),
            view,
            progress: Progress::default(),
        });
        self.log(EventType::CommandIssued, step);
    }

    /// A worker claims the rows of a frame and runs the body over them.
    pub(super) fn carry_out_frame(&mut self, command: &Command<'p>, frame: usize) {
        let step = self.step_of(command);
        let tolerant = self.step(step).spec.policy.failure.mode == FailureMode::BestEffort;
        let run = self.running.get(&step).and_then(|run| run.frames.as_ref());
        let most = run.map_or(0, |run| run.max_rows);
        let rows = self.world.rows(&command.step.name.value, frame, most);
        let done = execute_frame(command, self.outcomes, &rows, tolerant);
        self.log_work(step, None, &done.closed);
        self.write_ctx(step, &done.closed.writes);
        let stopped = self.stopped();
        let Some(run) = self.running.get_mut(&step) else {
            return;
        };
        super::machine::write_vars(&mut run.vars, &done.closed.writes);
        let Some(frames) = run.frames.as_mut() else {
            return;
        };
        frames.open -= 1;
        frames.rows += done.rows;
        frames.frames += usize::from(done.rows > 0);
        frames.failed += done.failed_rows;
        let failed = done.failed.into_iter().map(|fault| (frame, fault));
        frames.errors.extend(failed);
        let is_good = tolerant || done.closed.outcome.is_ok();
        if let (Err(fault), false) = (done.closed.outcome, tolerant) {
            frames.fault.get_or_insert(Failed {
                data: Json::Null,
                ..fault
            });
        }
        // A frame with rows is followed by the next of its chain.
        let goes_on = is_good && done.rows > 0 && frames.fault.is_none();
        frames.cut |= goes_on && stopped;
        if goes_on && !stopped {
            self.issue_frame(step);
        }
        self.end_cursor(step);
    }

    /// Ends the loop when all of its chains have ended.
    fn end_cursor(&mut self, step: usize) {
        let frames = self.running.get(&step).and_then(|run| run.frames.clone());
        let Some(frames) = frames.filter(|frames| frames.open == 0) else {
            return;
        };
        if let Some(fault) = frames.fault {
            self.fail(step, fault);
        } else if frames.cut {
            self.cut_short(step);
        } else {
            self.log(EventType::LoopDone, step);
            let value = StepValue {
                data: frames.data(),
                labels: None,
            };
            self.succeed(step, "loop.done", value);
        }
    }
}

impl FrameRun {
    /// Rows are counted and not kept.
    ///
    /// Choice: a frame that found nothing does not count, and an error names its frame.
    fn data(&self) -> Json {
        let failed = self.failed;
        let stats = [
            ("total", self.rows),
            ("success", self.rows - failed),
            ("failed", failed),
            ("frames", self.frames),
        ];
        let stats = stats.map(|(name, count)| (name, Json::from(count)));
        let mut data = vec![
            ("results", Json::list([])),
            ("stats", Json::object(stats)),
            ("data", Json::list([])),
        ];
        if failed > 0 {
            let mut errors = self.errors.clone();
            errors.sort_by_key(|(frame, _)| *frame);
            let entry = |(frame, fault): &(usize, Failed)| {
                Json::object([
                    ("index", Json::from(*frame)),
                    ("error", fault.error.clone()),
                ])
            };
            data.push(("errors", Json::list(errors.iter().map(entry))));
        }
        Json::object(data)
    }
}

/// A number of at least 1, or nothing where it is less.
fn count(
    setting: Option<&Setting<u32>>,
    default: u64,
    scope: &dyn Scope,
) -> Result<Option<usize>, RenderError> {
    let count = match setting {
        None => Some(default),
        Some(Setting::Fixed(count)) => Some(u64::from(*count)),
        Some(Setting::Template(template)) => template.render(scope)?.value.as_u64(),
    };
    let count = count.filter(|count| *count > 0);
    Ok(count.and_then(|count| usize::try_from(count).ok()))
}
