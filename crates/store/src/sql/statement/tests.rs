use super::*;

#[test]
fn statement_is_translated_for_sqlite() {
    static PURGE: Statement = Statement::new(
        "DELETE FROM a WHERE ctid = ANY (ARRAY(
                 SELECT ctid FROM a /*sqlite INDEXED BY a_old*/
                 WHERE strpos(name, $2::text) > 0 AND greatest(at, $1::timestamptz) = at
                 LIMIT $3::bigint FOR UPDATE SKIP LOCKED
             )) AND body <> $4::text::json",
    );
    let words: Vec<_> = PURGE.sqlite().split_whitespace().collect();
    assert_eq!(
        words.join(" "),
        "DELETE FROM a WHERE rowid IN ( SELECT rowid FROM a INDEXED BY a_old \
             WHERE instr(name, ?2) > 0 AND max(at, ?1) = at LIMIT ?3 ) AND body <> ?4"
    );
}
