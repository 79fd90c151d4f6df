//! Processes and their descendants.

/// A process and all its living descendants.
pub(super) fn tree(root: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut queue = vec![root];
    while let Some(process) = queue.pop() {
        found.push(process);
        queue.extend(children(process));
    }
    found
}

/// Every thread has a list of the children that it made. What ends meanwhile has none.
fn children(process: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task"));
    threads
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|list| {
            let numbers = list.split_whitespace().filter_map(|word| word.parse().ok());
            numbers.collect::<Vec<u32>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_belongs_to_its_parent() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        assert!(tree(std::process::id()).contains(&child.id()));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!tree(std::process::id()).contains(&child.id()));
    }
}
