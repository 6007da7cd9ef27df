// Changes in a tree. POST /api/watch sends them as events, one at a time: a slow client blocks its
// own file worker, which merges and counts events meanwhile. POST /api/watch/check answers "has
// anything changed since?": the first request sets up a watch and gets a version, NAME:COUNT; later
// ones compare it with the count of events. A tree is tracked by a task that holds a file worker,
// until TREE_MS after the last request, the end of the sandbox, or eviction by newer trees. After
// that, and after a restart, the answer is "resync". The file worker delays events to merge them:
// it is flushed before a request is answered, so that every change before the request counts.
//
// Only /workspace and below can be watched. The path is compared as text; a symbolic link below it
// is followed inside the box only.
#include <stdio.h>

#include "base/clock.h"
#include "gateway/cancel_on_delete.h"
#include "toolbox/handlers.h"
#include "toolbox/watch_state.h"

#define WATCH_SETUP_MS 10000
#define DEFAULT_EVENTS ((1u << FILEOP_ATTRIB_SET) - 1) // all event types before it

// The parameters of a watch, as a request body gives them.
struct watch_ask {
	const char *root; // absolute: /workspace or beneath
	uint32_t flags;	  // of files_watch()
	uint32_t events;  // bit mask by enum fileop_event_type
	const char *const *include, *const *exclude;
};

static const char *const words[] = {"create", "modify", "delete", "move_from", "move_to", "attrib"};

static fallible read_patterns(struct path_arg *path_arg, const char *name, const char *const **out)
{
	TRY(json_want(json_get(path_arg->json, name), name, JSON_ARRAY));
	TRY(path_arg_globs(path_arg, name, out));
	for (const char *const *at = *out; at && *at; at++)
		if (strpbrk(*at, "[]{}"))
			return path_arg_bad(path_arg, name, "INVALID_PATTERN",
					    "may use *, ** and ?, but no brackets or braces");
	return OK;
}

static fallible watch_ask_read_events(struct path_arg *path_arg, const struct json *list,
				      uint32_t *out)
{
	uint32_t events = 0;

	path_arg_at(path_arg, "events", "INVALID_EVENT");
	TRY(json_want(list, "events", JSON_ARRAY));
	for (size_t i = 0; i < json_count(list); i++) {
		struct str text = {0};
		size_t word = 0;

		TRY(json_str(json_at(list, i), "events", &text));
		while (word < sizeof(words) / sizeof(*words) && !str_is(text, words[word]))
			word++;
		if (word == sizeof(words) / sizeof(*words))
			return path_arg_bad(
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

static fallible watch_ask_read(struct path_arg *path_arg, struct watch_ask *out)
{
	static const char *const usual[] = {".git", "node_modules", ".DS_Store", NULL};
	struct watch_ask ask = {.events = DEFAULT_EVENTS};
	bool recursive = true;

	TRY(path_arg_user(path_arg));
	TRY(path_arg_path(path_arg, "path", NULL));
	TRY(path_arg_flag(path_arg, "recursive", &recursive));
	TRY(read_patterns(path_arg, "include", &ask.include));
	TRY(read_patterns(path_arg, "exclude", &ask.exclude));
	if (ask.include && ask.include[0] && ask.exclude && ask.exclude[0])
		return path_arg_bad(path_arg, "include", "INVALID_PATTERN",
				    "and 'exclude' exclude each other");
	if (json_get(path_arg->json, "events"))
		TRY(watch_ask_read_events(path_arg, json_get(path_arg->json, "events"),
					  &ask.events));
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

static bool watch_ask_wants(const struct watch_ask *ask, const struct fileop_event *event)
{
	return event->type > FILEOP_ATTRIB_SET || ask->events >> event->type & 1;
}

static fallible watch_ask_begin(struct path_arg *path_arg, const struct watch_ask *ask,
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

// ------------------------------------------------------------------------------- events

#define EVENT_MAX (64 * 1024)

static void put_path(struct json_out *out, const char *root, struct str path)
{
	auto_buf text = BUF_INIT(4 * PATH_ARG_PATH_MAX);

	buf_text(&text, root);
	if (path.len)
		buf_char(&text, '/');
	buf_str(&text, path);
	path_arg_put_name(out, "path", buf_view(&text));
}

// A queue overflow is reported as a change of the whole tree, so that the client rescans it.
static fallible watch_send(struct http *x, const struct watch_ask *ask,
			   const struct fileop_event *event, struct buf *room)
{
	bool lost = event->type == FILEOP_OVERFLOW;
	struct json_out out = gateway_event(room, "event");

	json_put_text(&out, "eventType",
		      event->type < sizeof(words) / sizeof(*words) ? words[event->type] : "modify");
	put_path(&out, ask->root, lost ? STR("") : event->path);
	json_put_bool(&out, "isDirectory", lost || event->is_directory);
	if (lost)
		json_put_bool(&out, "overflow", true);
	gateway_put_now(&out);
	return gateway_send_event(x, &out);
}

static fallible send_start(struct http *x, const struct path_arg *path_arg, struct buf *room)
{
	struct json_out out = gateway_event(room, "watching");
	char id[32];

	watch_state_name(watch_state_of(x), id);
	path_arg_put_name(&out, "path", path_arg->shown);
	json_put_text(&out, "watchId", id);
	return gateway_send_event(x, &out);
}

static fallible send_end(struct http *x, const struct err *err, struct buf *room)
{
	struct json_out out = gateway_event(room, err ? "error" : "stopped");

	if (err)
		json_put_text(&out, "error", err_message(err));
	else
		json_put_text(&out, "reason", "what was watched is gone");
	return gateway_send_event(x, &out);
}

static fallible watch_follow(struct http *x, const struct watch_ask *ask, struct files_walk *walk,
			     struct buf *room)
{
	for (;;) {
		struct fileop_event event;
		auto_err err = http_while_away(x, HTTP_PROBE_EVENT,
					       files_next_event(walk, CLOCK_NEVER, &event));

		if (err && err_kind(err) == ERR_CANCELLED)
			return take_ptr(err);
		if (err || event.type == FILEOP_STOPPED)
			return send_end(x, err, room);
		if (event.type != FILEOP_CAUGHT_UP && watch_ask_wants(ask, &event))
			TRY(watch_send(x, ask, &event, room));
	}
}

static void drop_walk(struct files_walk **walk)
{
	files_drop(*walk);
}

fallible toolbox_watch(struct path_arg *path_arg)
{
	on_exit_call(drop_walk) struct files_walk *walk = NULL;
	auto_buf room = BUF_INIT(EVENT_MAX);
	struct http *x = path_arg->x;
	struct watch_ask ask = {.root = PATH_ARG_DEFAULT};

	TRY(path_arg_json(path_arg));
	TRY(watch_ask_read(path_arg, &ask));
	TRY(watch_ask_begin(path_arg, &ask, &walk));
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(path_arg->ref.entry,
									       x);

	TRY(gateway_begin_events(x));
	TRY(send_start(x, path_arg, &room));
	TRY(watch_follow(x, &ask, walk, &room));
	return http_end(x);
}

// ------------------------------------------------------------------------------ versions

#define TREE_MS 600000
#define TREES_BOX_MAX 8
#define TREES_MAX 256
#define NAME_MAX_BYTES 128
#define CATCH_UP_MS 2000

struct tree {
	struct link link; // in watches->trees, least recently used first; in no list: evicted
	struct watch_state *watches;
	struct entry *entry;
	struct files_walk *walk;
	struct str key; // parameters of the watch; owned
	uint32_t events;
	char name[32];
	uint64_t count;
	int64_t until;
	bool listed;
	struct task *task;
	uint64_t asked, caught_up; // numbers of flushes
	struct condition condition;
	int refs; // of the task, and of requests that wait for a flush
};

static void drop_tree(struct tree **held)
{
	struct tree *tree = *held;

	if (!tree || --tree->refs > 0)
		return;
	free((char *)tree->key.at);
	free(tree);
}

static void watch_check_unlist(struct tree *tree)
{
	if (tree->listed) {
		link_drop(&tree->link);
		tree->watches->tree_count--;
	}
	tree->listed = false;
}

static void watch_check_track(void *arg)
{
	struct tree *tree = arg;

	while (tree->listed) {
		struct watch_ask ask = {.events = tree->events};
		struct fileop_event event;
		auto_err err = files_next_event(tree->walk, tree->until, &event);

		if (err && err_kind(err) == ERR_TIMEOUT &&
		    loop_now(tree->watches->loop) < tree->until)
			continue;
		if (err || event.type == FILEOP_STOPPED)
			break;
		if (event.type != FILEOP_CAUGHT_UP) {
			tree->count += watch_ask_wants(&ask, &event);
			continue;
		}
		tree->caught_up++;
		condition_signal(&tree->condition);
	}
	watch_check_unlist(tree);
	files_drop(take_ptr(tree->walk));
	entry_unref(tree->entry);
	condition_signal(&tree->condition);
	drop_tree(&tree);
}

// *out == false: the tree is no longer tracked.
static fallible watch_check_catch_up(struct tree *found, bool *out)
{
	on_exit_call(drop_tree) struct tree *tree = found;
	int64_t deadline = loop_now(tree->watches->loop) + CATCH_UP_MS;
	uint64_t mine = ++tree->asked;
	struct err *err = OK;

	tree->refs++;
	files_nudge(tree->walk);
	while (!err && tree->listed && tree->caught_up < mine)
		err = condition_wait(&tree->condition, deadline);
	*out = tree->listed;
	return err;
}

static void watch_check_make_room(struct watch_state *watches, const struct entry *entry)
{
	size_t of_box = 0;

	list_each (at, &watches->trees)
		of_box += link_of(at, struct tree, link)->entry == entry;
	list_each (at, &watches->trees) {
		struct tree *tree = link_of(at, struct tree, link);
		bool same = tree->entry == entry;

		if ((same && of_box >= TREES_BOX_MAX) || watches->tree_count >= TREES_MAX) {
			of_box -= same;
			watch_check_unlist(tree);
			task_cancel(tree->task);
		}
	}
}

static void add_globs(struct buf *key, const char *const *globs)
{
	for (; globs && *globs; globs++)
		buf_add(key, *globs, strlen(*globs) + 1);
	buf_char(key, 0);
}

static void write_key(struct buf *key, const struct path_arg *path_arg, const struct watch_ask *ask)
{
	buf_fmt(key, "%u %u %s", ask->flags, ask->events, path_arg->files.user);
	buf_add(key, "", 1);
	buf_add(key, ask->root, strlen(ask->root) + 1);
	add_globs(key, ask->include);
	add_globs(key, ask->exclude);
}

static struct tree *find_tree(struct watch_state *watches, const struct entry *entry,
			      struct str key)
{
	list_each (at, &watches->trees) {
		struct tree *tree = link_of(at, struct tree, link);

		if (tree->entry == entry && str_eq(tree->key, key))
			return tree;
	}
	return NULL;
}

static struct tree *watch_check_start_tree(struct path_arg *path_arg, const struct watch_ask *ask,
					   struct str key, struct files_walk *walk)
{
	struct watch_state *watches = watch_state_of(path_arg->x);
	struct tree *tree = mem_new_of(struct tree);

	watch_check_make_room(watches, path_arg->ref.entry);
	entry_ref(path_arg->ref.entry);
	*tree = (struct tree){
		.watches = watches,
		.entry = path_arg->ref.entry,
		.walk = walk,
		.key = {mem_dup(key.at, key.len), key.len},
		.events = ask->events,
		.until = loop_now(watches->loop) + TREE_MS,
		.listed = true,
		.refs = 1,
	};
	condition_init(&tree->condition);
	watch_state_name(watches, tree->name);
	link_add(&watches->trees, &tree->link);
	watches->tree_count++;
	tree->task = task_start(watches->loop, "tracked tree", watch_check_track, tree);
	return tree;
}

static bool watch_check_is_name(struct str text)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = text.at[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
		    c != '-' && c != '_')
			return false;
	}
	return text.len && text.len <= NAME_MAX_BYTES;
}

struct version {
	struct str name; // at == NULL: none was given
	uint64_t count;
};

static fallible watch_check_read_version(struct path_arg *path_arg, struct version *out)
{
	struct str text = {0}, name = {0};

	path_arg_at(path_arg, "since", "INVALID_VERSION");
	TRY(json_str(json_get(path_arg->json, "since"), "since", &text));
	if (!text.at)
		return OK;
	if (!memchr(text.at, ':', text.len) || !str_cut(&text, ':', &name) ||
	    !watch_check_is_name(name) || !str_to_u64(text, 0, UINT64_MAX / 2, &out->count))
		return err_new(INVALID, "bad_field", "'since' is not a version");
	out->name = name;
	return OK;
}

static bool is_of_this_life(const struct watch_state *watches, struct str name)
{
	char prefix[32];

	snprintf(prefix, sizeof(prefix), "watch-%s-", watches->life);
	return str_starts(name, prefix);
}

static fallible watch_check_answer(struct path_arg *path_arg, const struct tree *tree,
				   const struct version *since)
{
	auto_buf body = BUF_INIT(4096);
	struct json_out out = gateway_success(&body);
	bool known = since->name.at && str_is(since->name, tree->name);
	char version[64];

	if (known && since->count > tree->count) {
		path_arg_at(path_arg, "since", "INVALID_VERSION");
		return err_new(INVALID, "bad_field", "'since' is newer than the current version");
	}
	snprintf(version, sizeof(version), "%s:%llu", tree->name, (unsigned long long)tree->count);
	json_put_text(&out, "status",
		      since->name.at && !known		     ? "resync"
		      : known && since->count != tree->count ? "changed"
							     : "unchanged");
	if (since->name.at && !known)
		json_put_text(&out, "reason",
			      is_of_this_life(tree->watches, since->name) ? "expired"
									  : "restarted");
	json_put_text(&out, "version", version);
	return gateway_answer(path_arg->x, &out);
}

// Finds the tracked tree, or starts to track it.
static fallible answer_of(struct path_arg *path_arg, const struct watch_ask *ask,
			  const struct version *since)
{
	struct watch_state *watches = watch_state_of(path_arg->x);
	struct files_walk *walk = NULL;
	auto_buf key = BUF_INIT(512 * 1024);
	struct tree *tree;
	bool kept = false;

	write_key(&key, path_arg, ask);
	if (!buf_ok(&key))
		return err_new(INVALID, "bad_field", "the patterns are too long together");
	tree = find_tree(watches, path_arg->ref.entry, buf_view(&key));
	if (tree)
		TRY(watch_check_catch_up(tree, &kept));
	if (!kept) {
		TRY(watch_ask_begin(path_arg, ask, &walk));
		// Another request may have added it while this one waited.
		tree = find_tree(watches, path_arg->ref.entry, buf_view(&key));
		if (tree)
			files_drop(walk);
		else
			tree = watch_check_start_tree(path_arg, ask, buf_view(&key), walk);
	}
	// The tree's timeout and its place in the LRU list begin anew.
	link_drop(&tree->link);
	link_add(&watches->trees, &tree->link);
	tree->until = loop_now(watches->loop) + TREE_MS;
	return watch_check_answer(path_arg, tree, since);
}

fallible toolbox_watch_check(struct path_arg *path_arg)
{
	struct version since = {0};
	struct watch_ask ask = {.root = PATH_ARG_DEFAULT};

	TRY(path_arg_json(path_arg));
	TRY(watch_check_read_version(path_arg, &since));
	TRY(watch_ask_read(path_arg, &ask));
	return answer_of(path_arg, &ask, &since);
}
