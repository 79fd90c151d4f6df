use super::*;

/// A change of this table changes which logs are valid.
#[test]
fn transition_table_is_stable() {
    let rows: Vec<String> = TransitionKind::ALL
        .iter()
        .map(|transition| {
            let (executions, steps) = (
                format!("{:?}", transition.execution_stages()),
                format!("{:?}", transition.step_stages()),
            );
            format!(
                "{:<12} {executions:<50} {steps:<42} {:?}",
                format!("{transition:?}"),
                transition.command_stages()
            )
        })
        .collect();
    insta::assert_snapshot!(rows.join("\n"));
}
