// Parses and checks the parameters of a watch. Only /workspace and below can be watched. The path
// is compared as text; a symbolic link below it is followed inside the box only.
#include "toolbox/watch_ask.h"

#include "toolbox/globs.h"

#define DEFAULT_EVENTS ((1u << FILEOP_ATTRIB_SET) - 1) // all event types before it

static const char *const words[] = {"create", "modify", "delete", "move_from", "move_to", "attrib"};

const char *watch_event_word(enum fileop_event_type type)
{
	return type < sizeof(words) / sizeof(*words) ? words[type] : "modify";
}

static fallible watch_ask_bad(struct path_arg *path_arg, const char *field, const char *code,
			      const char *why)
{
	path_arg->field = field;
	path_arg->code = code;
	return err_new(INVALID, "bad_field", "'%s' %s", field, why);
}

static fallible read_patterns(struct path_arg *path_arg, const struct json *json, const char *name,
			      const char *const **out)
{
	TRY(json_want(json_get(json, name), name, JSON_ARRAY));
	TRY(globs_read(path_arg, json, name, out));
	for (const char *const *at = *out; at && *at; at++)
		if (strpbrk(*at, "[]{}"))
			return watch_ask_bad(path_arg, name, "INVALID_PATTERN",
					     "may use *, ** and ?, but no brackets or braces");
	return OK;
}

static fallible watch_ask_read_events(struct path_arg *path_arg, const struct json *list,
				      uint32_t *out)
{
	uint32_t events = 0;

	path_arg->field = "events";
	path_arg->code = "INVALID_EVENT";
	TRY(json_want(list, "events", JSON_ARRAY));
	for (size_t i = 0; i < json_count(list); i++) {
		struct str text = {0};
		size_t word = 0;

		TRY(json_str(json_at(list, i), "events", &text));
		while (word < sizeof(words) / sizeof(*words) && !str_is(text, words[word]))
			word++;
		if (word == sizeof(words) / sizeof(*words))
			return watch_ask_bad(
				path_arg, "events", "INVALID_EVENT",
				"may hold create, modify, delete, move_from, move_to, attrib");
		events |= 1u << word;
	}
	path_arg->field = NULL;
	*out = events ? events : DEFAULT_EVENTS;
	return OK;
}

// ".." is removed textually. A symbolic link in the path leads elsewhere in the same sandbox at
// most.
static const char *watch_ask_resolve(struct path_arg *path_arg)
{
	struct str rest = str_of(path_arg_absolute(path_arg, path_arg->path)), part;
	auto_buf out = BUF_INIT(4 * PATH_ARG_PATH_MAX);

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
	return out.len ? arena_dup(path_arg->x->arena, out.at, out.len) : "/";
}

static fallible read_root(struct path_arg *path_arg, struct watch_ask *ask)
{
	const char *workdir = record_workdir(&path_arg->ref.entry->record);
	struct str root;

	ask->root = watch_ask_resolve(path_arg);
	root = str_of(ask->root);
	if (str_is(root, PATH_ARG_DEFAULT) || str_starts(root, PATH_ARG_DEFAULT "/"))
		return OK;
	if (str_starts(root, workdir) &&
	    (!root.at[strlen(workdir)] || root.at[strlen(workdir)] == '/'))
		return OK;
	return err_new(FORBIDDEN, "permission_denied",
		       "only " PATH_ARG_DEFAULT " and what is beneath can be watched");
}

fallible watch_ask_read(struct path_arg *path_arg, const struct json *json, struct watch_ask *out)
{
	static const char *const usual[] = {".git", "node_modules", ".DS_Store", NULL};
	struct watch_ask ask = {.events = DEFAULT_EVENTS};
	bool recursive = true;

	TRY(path_arg_user(path_arg, json));
	TRY(path_arg_path(path_arg, json, "path", NULL));
	path_arg->field = "recursive";
	path_arg->code = "INVALID_TYPE";
	TRY(json_bool(json_get(json, "recursive"), "recursive", &recursive));
	path_arg->field = NULL;
	TRY(read_patterns(path_arg, json, "include", &ask.include));
	TRY(read_patterns(path_arg, json, "exclude", &ask.exclude));
	if (ask.include && ask.include[0] && ask.exclude && ask.exclude[0])
		return watch_ask_bad(path_arg, "include", "INVALID_PATTERN",
				     "and 'exclude' exclude each other");
	if (json_get(json, "events"))
		TRY(watch_ask_read_events(path_arg, json_get(json, "events"), &ask.events));
	path_arg->field = NULL;
	if (ask.include && !ask.include[0])
		ask.include = NULL;
	if (!ask.include && !ask.exclude)
		ask.exclude = usual;
	ask.flags = (recursive ? FILEOP_RECURSIVE : 0) |
		    (ask.events >> FILEOP_ATTRIB_SET & 1 ? FILEOP_ATTRIB : 0);
	TRY(read_root(path_arg, &ask));
	*out = ask;
	return OK;
}

bool watch_ask_wants(const struct watch_ask *ask, const struct fileop_event *event)
{
	return event->type > FILEOP_ATTRIB_SET || ask->events >> event->type & 1;
}

fallible watch_ask_begin(struct path_arg *path_arg, const struct watch_ask *ask,
			 struct files_walk **out)
{
	struct err *err;

	path_arg_within(path_arg, WATCH_SETUP_MS);
	err = files_watch(&path_arg->files, ask->root, ask->flags, ask->include, ask->exclude, out);
	if (err && (err_kind(err) == ERR_TIMEOUT || err_kind(err) == ERR_INTERNAL))
		return err_recast(err, ERR_INTERNAL, "watch_start",
				  "the watch could not be put in place");
	return err;
}
