//! Cursor loops: chains of frames, each of which claims rows until none are left.

use noetl_playbook::model::{FailureMode, ValueOrTemplate};
use noetl_playbook::template::{RenderError, TemplateEnvironment};
use noetl_types::{EventType, Json};

use super::interpreter::Interpreter;
use crate::names::StepValue;
use crate::outcome::{ErrorKind, TaskError};
use crate::pipeline::{Command, CommandFailure, PipelineProgress, execute_frame};

/// Rows per frame if the playbook does not set it.
const DEFAULT_FRAME_ROWS: u64 = 1;

/// State of a running cursor loop.
#[derive(Debug, Clone, Default)]
pub(super) struct CursorState {
    max_rows: usize,
    /// Number of the next frame.
    next_frame: usize,
    /// Number of open frames.
    open_frames: usize,
    /// Number of claimed rows, and of frames that had any.
    rows: usize,
    frames: usize,
    /// Number of failed rows, if failures are tolerated.
    failed_rows: usize,
    /// Errors with the number of their frame, if failures are tolerated.
    errors: Vec<(usize, CommandFailure)>,
    /// Error of the first failed frame.
    first_error: Option<CommandFailure>,
    /// True if a chain could not continue because the run failed elsewhere.
    is_cut_short: bool,
}

impl<'p> Interpreter<'p> {
    /// Starts the chains of a cursor loop.
    pub(super) fn start_cursor_loop(&mut self, step: usize) {
        let Some((looping, pass)) =
            self.step_model(step).looping.as_ref().zip(self.running.get(&step))
        else {
            return;
        };
        let environment = self
            .execution_view(pass)
            .template_names(&self.step_model(step).name.value)
            .to_environment();
        let width = looping.spec.max_in_flight.as_ref().map(|width| &width.value);
        let settings = render_count(width, 1, &environment).and_then(|width| {
            let rows = render_count(
                looping.spec.frame.max_rows.as_ref(),
                DEFAULT_FRAME_ROWS,
                &environment,
            )?;
            Ok((width, rows))
        });
        let (width, max_rows) = match settings {
            Ok((Some(width), Some(rows))) => (width, rows),
            Ok(_) => {
                let error = TaskError::new(ErrorKind::Schema, "a width must be at least 1");
                self.fail_step(step, CommandFailure::from_task_error(&error));
                return;
            }
            Err(error) => {
                self.fail_uncaught(step, &CommandFailure::from_render_error(&error));
                return;
            }
        };
        if let Some(pass) = self.running.get_mut(&step) {
            pass.cursor_state = Some(CursorState { max_rows, ..CursorState::default() });
        }
        for _ in 0..width {
            self.issue_frame(step);
        }
    }

    fn issue_frame(&mut self, step: usize) {
        let Some(pass) = self.running.get_mut(&step) else {
            return;
        };
        let Some(cursor) = pass.cursor_state.as_mut() else {
            return;
        };
        let frame = cursor.next_frame;
        cursor.next_frame += 1;
        cursor.open_frames += 1;
        let pass = pass.clone();
        let view = self.execution_view(&pass);
        let number = self.next_command_number();
        self.open_commands.push(Command {
            number,
            step: self.step_model(step),
            run: self.steps[step].runs,
            item: None,
            frame: Some(frame),
            view,
            progress: PipelineProgress::default(),
        });
        self.log_step(EventType::CommandIssued, step);
    }

    /// Claims the rows of a frame and runs the body over them, as a worker does.
    pub(super) fn run_frame(&mut self, command: &Command<'p>, frame: usize) {
        let step = self.command_step(command);
        let tolerant = self.step_model(step).spec.policy.failure.mode == FailureMode::BestEffort;
        let cursor = self.running.get(&step).and_then(|pass| pass.cursor_state.as_ref());
        let max_rows = cursor.map_or(0, |cursor| cursor.max_rows);
        let rows = self.external_inputs.frame_rows(&command.step.name.value, frame, max_rows);
        let executed = execute_frame(command, self.outcomes, &rows, tolerant);
        self.log_worker_events(step, None, &executed.closed);
        self.write_ctx(step, &executed.closed.writes);
        let stopped = self.is_stopped();
        let Some(pass) = self.running.get_mut(&step) else {
            return;
        };
        super::interpreter::write_vars(&mut pass.vars, &executed.closed.writes);
        let Some(cursor) = pass.cursor_state.as_mut() else {
            return;
        };
        cursor.open_frames -= 1;
        cursor.rows += executed.rows;
        cursor.frames += usize::from(executed.rows > 0);
        cursor.failed_rows += executed.failed_rows;
        let failures = executed.failures.into_iter().map(|failure| (frame, failure));
        cursor.errors.extend(failures);
        let succeeded = tolerant || executed.closed.outcome.is_ok();
        if let (Err(failure), false) = (executed.closed.outcome, tolerant) {
            cursor.first_error.get_or_insert(CommandFailure { data: Json::Null, ..failure });
        }
        // A frame with rows is followed by the next of its chain.
        let continues = succeeded && executed.rows > 0 && cursor.first_error.is_none();
        cursor.is_cut_short |= continues && stopped;
        if continues && !stopped {
            self.issue_frame(step);
        }
        self.finish_cursor_loop(step);
    }

    /// Ends the loop when all of its chains have ended.
    fn finish_cursor_loop(&mut self, step: usize) {
        let cursor = self.running.get(&step).and_then(|pass| pass.cursor_state.clone());
        let Some(cursor) = cursor.filter(|cursor| cursor.open_frames == 0) else {
            return;
        };
        if let Some(failure) = cursor.first_error {
            self.fail_step(step, failure);
        } else if cursor.is_cut_short {
            self.cancel_pass(step);
        } else {
            self.log_step(EventType::LoopDone, step);
            let value = StepValue { data: cursor.cursor_data(), labels: None };
            self.complete_step(step, "loop.done", value);
        }
    }
}

impl CursorState {
    /// Returns the data of the loop. Rows are counted, not kept.
    ///
    /// Choice: a frame without rows does not count, and an error contains the number of its frame.
    fn cursor_data(&self) -> Json {
        let failed = self.failed_rows;
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
            let entry = |(frame, failure): &(usize, CommandFailure)| {
                Json::object([("index", Json::from(*frame)), ("error", failure.error.clone())])
            };
            data.push(("errors", Json::list(errors.iter().map(entry))));
        }
        Json::object(data)
    }
}

/// Renders a number. Returns `None` if it is below 1.
fn render_count(
    setting: Option<&ValueOrTemplate<u32>>,
    default: u64,
    environment: &dyn TemplateEnvironment,
) -> Result<Option<usize>, RenderError> {
    let count = match setting {
        None => Some(default),
        Some(ValueOrTemplate::Fixed(count)) => Some(u64::from(*count)),
        Some(ValueOrTemplate::Template(template)) => template.render(environment)?.value.as_u64(),
    };
    let count = count.filter(|count| *count > 0);
    Ok(count.and_then(|count| usize::try_from(count).ok()))
}
