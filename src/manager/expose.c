// Exposes ports of a box to previews. The register is written to the store before the caller is
// told; a failed write takes the change back. Ending an exposure signals the entry, which makes
// open preview connections end.
#include "manager/expose.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "codec/text.h"
#include "types/event.h"

static fallible expose_check(const struct entry *entry, const struct expose_ask *ask)
{
	if (ask->name.len > EXPOSED_PORTS_NAME_MAX)
		return err_new(INVALID, "bad_field", "'name' may have at most %d bytes",
			       EXPOSED_PORTS_NAME_MAX);
	if (text_has_control(ask->name))
		return err_new(INVALID, "bad_field", "'name' has a control character");
	if (ask->token.at && !preview_token_is_token(ask->token))
		return err_hint(err_new(INVALID, "bad_field", "'token' is not a valid token"),
				"1 to %d of a-z, 0-9 and _", PREVIEW_TOKEN_TOKEN_MAX);
	if (ask->token.at && exposed_ports_has_token(&entry->ports, ask->token, ask->port))
		return err_new(CONFLICT, "token_taken", "another port has this token");
	return OK;
}

static void expose_publish(const struct entry *entry, enum event_kind kind, uint16_t port)
{
	char number[8];

	snprintf(number, sizeof(number), "%u", port);
	log_event(LOG_INFO, event_word(kind), "sandbox", entry->record.id, "port", number, NULL);
	event_publish(kind, "tenant", entry->record.tenant, "sandbox", entry->record.id, "port",
		      number, NULL);
}

static void expose_change(struct exposed_ports_entry *at, const struct expose_ask *ask)
{
	if (ask->name.at) {
		free(at->name);
		at->name = ask->name.len ? mem_dup(ask->name.at, ask->name.len) : NULL;
	}
	if (ask->token.at)
		snprintf(at->token, sizeof(at->token), STR_FMT, STR_ARG(ask->token));
	if (ask->ends_ms != EXPOSE_AS_BEFORE)
		at->ends_ms = ask->ends_ms;
}

fallible expose_port(struct entry *entry, const struct expose_ask *ask, bool *out_new,
		     struct exposed_ports_entry *out)
{
	struct exposed_ports_entry *at, before;
	bool is_new;
	struct err *err;

	TRY(expose_check(entry, ask));
	at = exposed_ports_get(&entry->ports, ask->port);
	is_new = !at;
	if (is_new)
		at = exposed_ports_add(&entry->ports, ask->port, ask->name);
	if (!at)
		return err_new(EXHAUSTED, "too_many_ports", "%d ports are exposed already",
			       EXPOSED_PORTS_MAX);
	before = *at;
	expose_change(at, ask);
	*out = *at;
	out->name = NULL;
	err = exposed_ports_save(entry->manager->store, entry->record.id, &entry->ports);
	if (err) {
		// A failed write undoes the change: after a restart it would be unknown.
		at = exposed_ports_get(&entry->ports, ask->port);
		if (is_new)
			exposed_ports_drop(&entry->ports, ask->port);
		else if (at) {
			memcpy(at->token, before.token, sizeof(at->token));
			at->ends_ms = before.ends_ms;
		}
		return err;
	}
	*out_new = is_new;
	if (is_new)
		expose_publish(entry, EVENT_PORT_EXPOSED, ask->port);
	return OK;
}

fallible expose_end(struct entry *entry, uint16_t port, bool *out_was)
{
	bool was = exposed_ports_drop(&entry->ports, port);

	if (was) {
		expose_publish(entry, EVENT_PORT_HIDDEN, port);
		condition_signal(&entry->changed); // open preview connections end
		TRY(exposed_ports_save(entry->manager->store, entry->record.id, &entry->ports));
	}
	*out_was = was;
	return OK;
}
