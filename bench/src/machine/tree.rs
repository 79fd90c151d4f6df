//! Processes and their descendants.

/// Returns a process and all its live descendants.
pub(super) fn process_tree(root: u32) -> Vec<u32> {
    let mut tree = Vec::new();
    let mut queue = vec![root];
    while let Some(process) = queue.pop() {
        tree.push(process);
        queue.extend(child_processes(process));
    }
    tree
}

/// Returns the children of all threads of a process. An ended process has none.
fn child_processes(process: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task"));
    threads
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|list| {
            let numbers = list.split_whitespace().filter_map(|pid| pid.parse().ok());
            numbers.collect::<Vec<u32>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_contains_child_process() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        assert!(process_tree(std::process::id()).contains(&child.id()));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!process_tree(std::process::id()).contains(&child.id()));
    }
}
