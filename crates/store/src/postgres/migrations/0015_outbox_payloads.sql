-- Writers outside of the server may insert payloads of any size. The size of each is recorded, so that a
-- claim is bounded by the bytes that it returns.
CREATE FUNCTION measure_outbox_payload() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.bytes := 1024 + octet_length(NEW.payload::text);
    RETURN NEW;
END
$$;
CREATE TRIGGER outbox_payload_size BEFORE INSERT OR UPDATE OF payload ON outbox
    FOR EACH ROW WHEN (NEW.payload IS NOT NULL) EXECUTE FUNCTION measure_outbox_payload();
UPDATE outbox SET bytes = 1024 + octet_length(payload::text)
    WHERE payload IS NOT NULL AND status <> 'PUBLISHED';
