use super::*;

#[test]
fn parses_result_addresses() {
    let address = ResultAddress::parse("noetl://execution/7/result/load/9").unwrap();
    assert_eq!(address.execution_id.get(), 7);
    assert_eq!((&*address.name, address.result_id.get()), ("load", 9));
    for wrong in [
        "",
        "noetl://execution/7",
        "noetl://execution/7/result/load",
        "noetl://execution/7/result/9",
        "noetl://execution/7/result//9",
        "noetl://execution/x/result/load/9",
        "noetl://execution/7/result/load/-9",
        "noetl://execution/0/result/load/9",
        "http://execution/7/result/load/9",
    ] {
        assert_eq!(ResultAddress::parse(wrong), None, "{wrong}");
    }
}
