// Templates live with the warden; here is only the dialogue. An import is a pipe to the warden's
// unpacker: we write what the client sends, close it, and ask how it went. An archive that breaks
// off looks to the unpacker like one that ends, so an import that is given up half way is waited
// for in a task of its own and forgotten if it became a template after all.
#include "fleet/templates.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "fleet/access.h"
#include "loop/stream.h"

#define ASK_MS 30000
#define WORK_MS (3600 * 1000) // a large archive on a slow disk
#define SILENCE_MS 120000     // the unpacker may sync between two reads

struct templates_import {
	struct fleet *fleet;
	struct ask_import *ask;
	struct stream pipe;
	char name[ORDER_TEMPLATE_MAX];
};

static fallible check_name(struct str name)
{
	if (id_is_template(name) && name.len < ORDER_TEMPLATE_MAX)
		return OK;
	return err_hint(err_new(INVALID, "bad_template", "this is not a template's name"),
			"1 to 63 of a-z, 0-9 and ._-, beginning with a letter or digit");
}

// "host" is this machine itself: nobody makes it, nobody removes it.
static fallible check_own_name(struct str name)
{
	TRY(check_name(name));
	if (str_is(name, "host"))
		return err_hint(err_new(CONFLICT, "template_reserved",
					"the template 'host' is this machine's own"),
				"choose another name");
	return OK;
}

static struct order order_for(enum order_kind kind, struct str name)
{
	struct order order = {.kind = kind};

	snprintf(order.name, sizeof(order.name), STR_FMT, STR_ARG(name));
	return order;
}

static struct template template_of(const struct order_template *from)
{
	struct template out = {
		.kind = from->is_host ? "frozen" : "imported",
		.bytes = from->bytes,
		.created_ms = from->created,
	};

	if (!strcmp(from->name, "host"))
		out.kind = "host";
	snprintf(out.name, sizeof(out.name), "%s", from->name);
	return out;
}

fallible templates_all(struct fleet *fleet, const struct who *who, struct template **out,
		       size_t *out_count)
{
	struct order order = {.kind = ORDER_LIST};
	auto_free struct answer *answer = mem_new_of(struct answer); // too large for a task's stack
	auto_free struct template *all = mem_new_of(struct template);
	size_t count = 1;

	TRY(access_ask(who, ACCESS_READ));
	// It is made at its first use, but it can be used from the beginning.
	all[0] = (struct template){.name = "host", .kind = "host"};
	do {
		int fds[ORDER_FDS_MAX];

		TRY(ask_order(fleet->ask, &order, answer, fds, loop_now(fleet->loop) + ASK_MS));
		for (uint32_t i = 0; i < answer->template_count; i++) {
			struct template one = template_of(&answer->templates[i]);

			snprintf(order.name, sizeof(order.name), "%s", one.name);
			if (!strcmp(one.name, "host")) {
				all[0] = one;
				continue;
			}
			all = mem_grow(all, count + 1, sizeof(*all));
			all[count++] = one;
		}
	} while (answer->template_count == ORDER_LIST_PAGE);
	*out = take_ptr(all);
	*out_count = count;
	return OK;
}

static fallible absent(struct str name)
{
	return err_hint(err_new(NOT_FOUND, "no_template", "there is no template '" STR_FMT "'",
				STR_ARG(name)),
			"GET /v1/templates lists those there are");
}

fallible templates_get(struct fleet *fleet, const struct who *who, struct str name,
		       struct template *out)
{
	auto_free struct template *all = NULL;
	size_t count = 0;

	TRY(access_ask(who, ACCESS_READ));
	TRY(check_name(name));
	TRY(templates_all(fleet, who, &all, &count));
	for (size_t i = 0; i < count; i++) {
		if (str_is(name, all[i].name)) {
			*out = all[i];
			return OK;
		}
	}
	return absent(name);
}

static fallible order_alone(struct fleet *fleet, enum order_kind kind, struct str name,
			    int64_t wait_ms, struct template *out)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = order_for(kind, name);
	int fds[ORDER_FDS_MAX];

	TRY(ask_order(fleet->ask, &order, answer, fds, loop_now(fleet->loop) + wait_ms));
	if (out) {
		*out = (struct template){
			.kind = kind == ORDER_FREEZE ? "frozen" : "imported",
			.bytes = answer->bytes,
			.files = answer->files,
			.created_ms = clock_wall_ms(),
		};
		memcpy(out->name, order.name, sizeof(out->name));
	}
	return OK;
}

fallible templates_forget(struct fleet *fleet, const struct who *who, struct str name)
{
	TRY(access_ask(who, ACCESS_TEMPLATES));
	TRY(check_own_name(name));
	return order_alone(fleet, ORDER_FORGET, name, ASK_MS, NULL);
}

fallible templates_freeze(struct fleet *fleet, const struct who *who, struct str name,
			  struct template *out)
{
	TRY(access_ask(who, ACCESS_TEMPLATES));
	TRY(check_own_name(name));
	return order_alone(fleet, ORDER_FREEZE, name, WORK_MS, out);
}

fallible templates_import_begin(struct fleet *fleet, const struct who *who, struct str name,
				struct templates_import **out)
{
	struct ask_import *ask = NULL;
	struct templates_import *import;
	int pipe = -1;

	TRY(access_ask(who, ACCESS_TEMPLATES));
	TRY(check_own_name(name));
	import = mem_new_of(struct templates_import);
	snprintf(import->name, sizeof(import->name), STR_FMT, STR_ARG(name));
	import->fleet = fleet;
	struct err *err = ask_import_begin(fleet->ask, import->name, &ask, &pipe);

	if (err) {
		free(import);
		return err;
	}
	import->ask = ask;
	import->pipe.fd = -1;
	err = stream_open(&import->pipe, fleet->loop, pipe);
	if (err) {
		templates_import_free(import);
		return err;
	}
	*out = import;
	return OK;
}

fallible templates_import_write(struct templates_import *import, const void *bytes, size_t len)
{
	struct err *err = stream_write(&import->pipe, bytes, len, SILENCE_MS);

	// The unpacker has gone away in the middle: its own answer says why.
	if (err && err_kind(err) == ERR_BAD_PEER) {
		struct template ignored;
		struct err *why = templates_import_end(import, &ignored);

		if (why) {
			err_free(err);
			return why;
		}
	}
	return err;
}

fallible templates_import_end(struct templates_import *import, struct template *out)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	int64_t deadline = loop_now(import->fleet->loop) + WORK_MS;

	if (!import->ask)
		return err_new(INTERNAL, "internal", "the import has ended");
	stream_close(&import->pipe);
	TRY(ask_import_end(take_ptr(import->ask), answer, deadline));
	*out = (struct template){
		.kind = "imported",
		.bytes = answer->bytes,
		.files = answer->files,
		.created_ms = clock_wall_ms(),
	};
	memcpy(out->name, import->name, sizeof(out->name));
	return OK;
}

static void give_up(void *arg)
{
	struct templates_import *import = arg;
	struct template ignored;
	auto_err end = NULL;
	auto_err forgotten = NULL;

	task_shield(true);
	end = templates_import_end(import, &ignored);
	if (!end)
		forgotten = order_alone(import->fleet, ORDER_FORGET, str_of(import->name), ASK_MS,
					NULL);
	if (forgotten)
		log_event(LOG_WARN, "template.half", "name", import->name, "trail",
			  err_trail(forgotten), NULL);
	free(import);
}

void templates_import_free(struct templates_import *import)
{
	if (!import)
		return;
	stream_close(&import->pipe);
	if (import->ask)
		task_start(import->fleet->loop, "unimport", give_up, import);
	else
		free(import);
}
