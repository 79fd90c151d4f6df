use super::*;

#[test]
fn exit_codes_are_stable() {
    let table: Vec<_> = CommandExit::MEANINGS.map(|(exit, _)| exit.code()).to_vec();
    assert_eq!(table, [0, 1, 2, 3, 4, 5, 6, 124, 130, 141]);
}

#[test]
fn server_errors_are_not_failed_runs() {
    let code_for = |status| CommandExit::from_http_status(status).code();
    let table: Vec<(u16, u8)> = [400, 401, 403, 404, 409, 410, 413, 422, 429]
        .into_iter()
        .chain([500, 501, 502, 503, 504])
        .map(|status| (status, code_for(status)))
        .collect();
    assert_eq!(
        table,
        [
            (400, 2),
            (401, 6),
            (403, 6),
            (404, 3),
            (409, 4),
            (410, 3),
            (413, 2),
            (422, 2),
            (429, 5),
            (500, 5),
            (501, 2),
            (502, 5),
            (503, 5),
            (504, 5),
        ]
    );
    let codes = noetl_types::ErrorCode::ALL.iter();
    let mut exits = codes.map(|code| CommandExit::from_http_status(code.http_status()));
    assert!(exits.all(|exit| exit != CommandExit::Failed && exit != CommandExit::Ok));
}
