use super::*;

#[test]
fn results_have_data_alias() {
    let results = Json::list([Json::from(1)]);
    let data = add_data_alias(Json::object([("results", results), ("stats", Json::Null)]));
    assert_eq!(data.get("data"), data.get("results"));
    assert_eq!(add_data_alias(remove_data_alias(data.clone())), data);
    assert_eq!(remove_data_alias(data).get("data"), None);
    assert_eq!(add_data_alias(Json::from(1)), Json::from(1));
}
