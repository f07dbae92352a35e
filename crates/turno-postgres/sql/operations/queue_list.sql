-- queue_list: the settings of the installation first, then of every queue that has settings or rows, by name.
-- Takes: nothing.
-- Returns: rows of turno.queue; a queue without settings of its own shows the installation's.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: P6
CREATE OR REPLACE FUNCTION turno.queue_list() RETURNS SETOF turno.queue
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_name  text;
    v_queue turno.queue;
BEGIN
    RETURN NEXT turno.settings('');
    FOR v_name IN SELECT n.queue FROM turno.queue_names() n LOOP
        v_queue := turno.settings(v_name);
        IF v_queue.queue = '' THEN
            v_queue.queue := v_name;
            v_queue.description := NULL;
        END IF;
        RETURN NEXT v_queue;
    END LOOP;
END $$;
