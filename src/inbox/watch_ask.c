#include "inbox/watch_ask.h"

#include "inbox/globs.h"

#define DEFAULT_EVENTS ((1u << REACH_ATTRIB_SET) - 1) // all before it

static const char *const words[] = {"create", "modify", "delete", "move_from", "move_to", "attrib"};

const char *watch_event_word(enum reach_event_type type)
{
	return type < sizeof(words) / sizeof(*words) ? words[type] : "modify";
}

static fallible bad(struct place *place, const char *field, const char *code, const char *why)
{
	place->field = field;
	place->code = code;
	return err_new(INVALID, "bad_field", "'%s' %s", field, why);
}

static fallible read_patterns(struct place *place, const struct json *json, const char *name,
			      const char *const **out)
{
	TRY(json_want(json_get(json, name), name, JSON_ARRAY));
	TRY(globs_read(place, json, name, out));
	for (const char *const *at = *out; at && *at; at++)
		if (strpbrk(*at, "[]{}"))
			return bad(place, name, "INVALID_PATTERN",
				   "may use *, ** and ?, but no brackets or braces");
	return OK;
}

static fallible watch_ask_read_events(struct place *place, const struct json *list, uint32_t *out)
{
	uint32_t events = 0;

	place->field = "events";
	place->code = "INVALID_EVENT";
	TRY(json_want(list, "events", JSON_ARRAY));
	for (size_t i = 0; i < json_count(list); i++) {
		struct str text = {0};
		size_t word = 0;

		TRY(json_str(json_at(list, i), "events", &text));
		while (word < sizeof(words) / sizeof(*words) && !str_is(text, words[word]))
			word++;
		if (word == sizeof(words) / sizeof(*words))
			return bad(place, "events", "INVALID_EVENT",
				   "may hold create, modify, delete, move_from, move_to, attrib");
		events |= 1u << word;
	}
	place->field = NULL;
	*out = events ? events : DEFAULT_EVENTS;
	return OK;
}

// Dots are taken by their word. A link on the way leads elsewhere in the same sandbox at most.
static const char *watch_ask_resolve(struct place *place)
{
	struct str rest = str_of(place_absolute(place, place->path)), part;
	auto_buf out = BUF_INIT(4 * PLACE_PATH_MAX);

	while (str_cut(&rest, '/', &part)) {
		if (!part.len)
			continue;
		if (str_is(part, "..")) {
			while (out.len && out.at[--out.len] != '/')
				;
			continue;
		}
		buf_char(&out, '/');
		buf_str(&out, part);
	}
	return out.len ? arena_dup(place->x->arena, out.at, out.len) : "/";
}

static fallible read_root(struct place *place, struct watch_ask *ask)
{
	const char *workdir = record_workdir(&place->visit.entry->record);
	struct str root;

	ask->root = watch_ask_resolve(place);
	root = str_of(ask->root);
	if (str_is(root, PLACE_DEFAULT) || str_starts(root, PLACE_DEFAULT "/"))
		return OK;
	if (str_starts(root, workdir) &&
	    (!root.at[strlen(workdir)] || root.at[strlen(workdir)] == '/'))
		return OK;
	return err_new(FORBIDDEN, "permission_denied",
		       "only " PLACE_DEFAULT " and what is beneath can be watched");
}

fallible watch_ask_read(struct place *place, const struct json *json, struct watch_ask *out)
{
	static const char *const usual[] = {".git", "node_modules", ".DS_Store", NULL};
	struct watch_ask ask = {.events = DEFAULT_EVENTS};
	bool recursive = true;

	TRY(place_user(place, json));
	TRY(place_path(place, json, "path", NULL));
	place->field = "recursive";
	place->code = "INVALID_TYPE";
	TRY(json_bool(json_get(json, "recursive"), "recursive", &recursive));
	place->field = NULL;
	TRY(read_patterns(place, json, "include", &ask.include));
	TRY(read_patterns(place, json, "exclude", &ask.exclude));
	if (ask.include && ask.include[0] && ask.exclude && ask.exclude[0])
		return bad(place, "include", "INVALID_PATTERN", "and 'exclude' exclude each other");
	if (json_get(json, "events"))
		TRY(watch_ask_read_events(place, json_get(json, "events"), &ask.events));
	place->field = NULL;
	if (ask.include && !ask.include[0])
		ask.include = NULL;
	if (!ask.include && !ask.exclude)
		ask.exclude = usual;
	ask.flags = (recursive ? REACH_RECURSIVE : 0) |
		    (ask.events >> REACH_ATTRIB_SET & 1 ? REACH_ATTRIB : 0);
	TRY(read_root(place, &ask));
	*out = ask;
	return OK;
}

bool watch_ask_wants(const struct watch_ask *ask, const struct reach_event *event)
{
	return event->type > REACH_ATTRIB_SET || ask->events >> event->type & 1;
}

fallible watch_ask_begin(struct place *place, const struct watch_ask *ask, struct files_walk **out)
{
	struct err *err;

	place_within(place, WATCH_SETUP_MS);
	err = files_watch(&place->files, ask->root, ask->flags, ask->include, ask->exclude, out);
	if (err && (err_kind(err) == ERR_TIMEOUT || err_kind(err) == ERR_INTERNAL))
		return err_recast(err, ERR_INTERNAL, "watch_start",
				  "the watch could not be put in place");
	return err;
}
