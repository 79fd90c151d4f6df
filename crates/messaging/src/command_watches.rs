//! Watches of commands: workers that are notified when commands end without their report.

use std::collections::HashMap;
use std::sync::Arc;

use noetl_types::CommandId;
use parking_lot::Mutex;
use tokio::sync::Notify;

type WatchMap = HashMap<CommandId, Vec<Arc<Notify>>>;

/// The watches of all commands.
#[derive(Debug, Default)]
pub struct CommandWatches {
    watched: Arc<Mutex<WatchMap>>,
}

/// A watch of several commands. Dropping it ends the watch.
#[derive(Debug)]
pub struct CommandWatch {
    watched: Arc<Mutex<WatchMap>>,
    commands: Vec<CommandId>,
    notify: Arc<Notify>,
}

impl CommandWatches {
    /// Watches commands from now on.
    pub fn watch_commands(&self, commands: Vec<CommandId>) -> CommandWatch {
        let notify = Arc::new(Notify::new());
        let mut watched = self.watched.lock();
        for command in &commands {
            watched.entry(*command).or_default().push(Arc::clone(&notify));
        }
        CommandWatch { watched: Arc::clone(&self.watched), commands, notify }
    }

    /// Notifies the watches of a command.
    pub fn notify_command(&self, command: CommandId) {
        for notify in self.watched.lock().get(&command).into_iter().flatten() {
            notify.notify_one();
        }
    }

    /// Notifies all watches.
    pub fn notify_all(&self) {
        for notify in self.watched.lock().values().flatten() {
            notify.notify_one();
        }
    }
}

impl CommandWatch {
    /// Waits until one of the commands may have ended since the start of the watch.
    pub async fn wait_for_end(&self) {
        self.notify.notified().await;
    }
}

impl Drop for CommandWatch {
    fn drop(&mut self) {
        let mut watched = self.watched.lock();
        for command in &self.commands {
            let Some(watches) = watched.get_mut(command) else {
                continue;
            };
            watches.retain(|notify| !Arc::ptr_eq(notify, &self.notify));
            if watches.is_empty() {
                watched.remove(command);
            }
        }
    }
}

#[cfg(test)]
mod tests;
