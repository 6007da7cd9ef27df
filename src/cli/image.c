// The verbs template pull and prune. A pull shows a bar for each layer on a terminal, lines
// elsewhere, and nothing with -q; Ctrl-C cancels it.
#include "cli/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/body.h"
#include "cli/collection.h"
#include "cli/credential.h"
#include "cli/interrupt.h"
#include "cli/print.h"
#include "codec/text.h"
#include "lib/fields.h"
#include "types/reference.h"

#define BAR 24	     // columns
#define LINES_MAX 20 // layers that are shown on a terminal

struct bars {
	bool terminal, quiet;
	size_t lines;	// printed above the cursor
	char phase[16]; // that was printed last
};

static void bar_print(const struct cove_pull_layer *layer)
{
	auto_buf text = BUF_INIT(256);
	uint64_t filled = layer->total ? layer->bytes * BAR / layer->total : BAR;

	buf_fmt(&text, "%.12s ", layer->digest + (strlen(layer->digest) > 7 ? 7 : 0));
	for (uint64_t i = 0; i < BAR; i++)
		buf_char(&text, i < filled ? '#' : '.');
	buf_char(&text, ' ');
	print_size(layer->bytes, &text);
	buf_text(&text, " of ");
	print_size(layer->total, &text);
	fprintf(stderr, "%s %s\033[K\n", text.at, layer->state);
}

static int bars_show(void *arg, const struct cove_pull_progress *progress)
{
	struct bars *bars = arg;
	size_t count = progress->layer_count < LINES_MAX ? progress->layer_count : LINES_MAX;

	if (bars->quiet)
		return 0;
	if (!bars->terminal) {
		if (strcmp(bars->phase, progress->phase) != 0 &&
		    strcmp(progress->phase, "ended") != 0)
			print_note("%s", progress->phase);
		snprintf(bars->phase, sizeof(bars->phase), "%s", progress->phase);
		return 0;
	}
	if (bars->lines)
		fprintf(stderr, "\033[%zuA", bars->lines);
	for (size_t i = 0; i < count; i++)
		bar_print(&progress->layers[i]);
	bars->lines = count > bars->lines ? count : bars->lines;
	return 0;
}

static fallible image_pull_as(struct call *call, struct remote *remote, const char *image,
			      const char *name, bool cache, char **out_json)
{
	struct bars bars = {.terminal = isatty(STDERR_FILENO), .quiet = call_has(call, OPT_QUIET)};
	auto_credential credential = {0};
	struct reference reference;
	struct cove_pull_options options = {.image = image, .name = name, .cache = cache};

	TRY(reference_read(str_of(image), &reference));
	TRY(credential_find(reference.host, &credential));
	options.platform = call_value(call, OPT_PLATFORM);
	options.username = credential.username;
	options.password = credential.password;
	options.identity_token = credential.identity;
	interrupt_arm(remote->cove);
	return remote_did(remote, cove_image_pull(remote->cove, &options, bars_show, &bars,
						  out_json, &remote->error));
}

fallible image_pull(struct call *call)
{
	auto_remote remote = {0};
	auto_free char *text = NULL;
	auto_json template = NULL;
	struct buf reply = {0};

	TRY(remote_open(&remote, call));
	TRY(image_pull_as(call, &remote, call->words[0], call_value(call, OPT_NAME), false, &text));
	TRY(json_read_any(str_of(text), &template));
	reply = (struct buf){.at = text, .len = strlen(text)};
	remote_print(call, &reply, fields_text(template, "name"));
	return OK;
}

fallible image_prune(struct call *call)
{
	static const struct body_row rows[] = {{OPT_UNUSED, BODY_TIME, "unusedFor"},
					       {OPT_CACHE, BODY_FLAG, "cache"},
					       {.key = NULL}};
	auto_buf body = BUF_INIT(4096), line = BUF_INIT(256), text = BUF_INIT(REMOTE_REPLY_MAX);
	struct json_out out = json_to(&body);
	auto_remote remote = {0};
	auto_json reply = NULL;

	json_begin(&out, '{');
	TRY(body_put(&out, call, rows));
	json_end(&out, '}');
	TRY(remote_open(&remote, call));
	TRY(remote_ask(&remote, "POST", TEMPLATES_PATH "/prune", &body, &text, &reply));
	buf_fmt(&line, "%lld templates, ", (long long)fields_number(reply, "templates", 0));
	print_size((uint64_t)fields_number(reply, "bytes", 0), &line);
	remote_print(call, &text, line.at);
	return OK;
}

struct search {
	const char *canonical;
	bool found;
};

static fallible image_see(const struct json *item, void *arg)
{
	struct search *search = arg;

	search->found |= !strcmp(fields_text(item, "image"), search->canonical);
	return OK;
}

fallible image_prepare(struct call *call)
{
	const char *image = call_value(call, OPT_IMAGE);
	auto_buf canonical = BUF_INIT(REFERENCE_MAX);
	auto_credential credential = {0};
	struct search search = {0};
	struct reference reference;
	auto_remote remote = {0};
	auto_free char *text = NULL;
	struct err *err;

	if (!image)
		return OK;
	TRY(reference_read(str_of(image), &reference));
	TRY(credential_find(reference.host, &credential));
	if (!credential.username && !credential.identity)
		return OK;
	reference_write(&reference, &canonical);
	search.canonical = canonical.at;
	TRY(remote_open(&remote, call));
	TRY(collection_each(&remote, TEMPLATES_PATH, "", image_see, &search));
	if (search.found)
		return OK;
	err = image_pull_as(call, &remote, image, NULL, true, &text);
	interrupt_disarm(remote.cove);
	return err;
}

fallible image_words(struct remote *remote, struct cove_box *box, struct json **out_config)
{
	struct cove_box_info info;
	auto_free char *path = NULL;
	auto_json record = NULL;
	auto_json template = NULL;
	auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
	struct json_out out = json_to(&text);

	TRY(remote_did(remote, cove_box_info(box, &info, &remote->error)));
	TRY(json_read_any(str_of(info.json), &record));
	if (!json_get(record, "image"))
		return OK;
	path = remote_path(TEMPLATES_PATH, info.from, "");
	TRY(remote_ask(remote, "GET", path, NULL, NULL, &template));
	if (!json_get(template, "config"))
		return OK;
	json_add_value(&out, json_get(template, "config"));
	return json_read_any(buf_view(&text), out_config);
}
