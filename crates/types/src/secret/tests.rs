use super::*;

#[test]
fn stored_operation_names_are_stable() {
    let names: Vec<&str> =
        SecretOperation::ALL.iter().map(|operation| operation.as_str()).collect();
    let expected = "set inspect read issue issue_sealed delete rotate keychain.put keychain.get keychain.delete";
    assert_eq!(names.join(" "), expected);
}
