// A build is a task that reads top to bottom: the steps of each stage, then a snapshot of the last
// one. A stage has a sandbox once a step must run that the cache does not have. Commands run as
// those of any sandbox of the tenant, with its limits, network policy and ledger. What is not a
// step is removed at the end: on success, on failure, and by the next daemon if this one is killed.
#include "manager/builds.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "loop/closer.h"
#include "manager/account.h"
#include "manager/build_copy.h"
#include "manager/build_files.h"
#include "manager/build_key.h"
#include "manager/build_mounts.h"
#include "manager/build_source.h"
#include "manager/build_steps.h"
#include "manager/manager.h"
#include "manager/pull.h"
#include "manager/snapshot_note.h"
#include "manager/snapshots.h"
#include "types/build_state.h"

#define BUILDS_OF_TENANT 4
#define BUILD_MS (2 * 3600 * 1000ll)
#define RUN_MS (30 * 60 * 1000)
#define FILES_MS (10 * 60 * 1000)
#define FILES_QUICK_MS 30000
#define LOG_PIECE (16 * 1024)
#define BUILD_BASES_MAX 16 // images that steps copy from
#define TEMPLATE_MARK "cove://"
#define ARCHIVE_TEMPLATE "add-" // of an archive while it is unpacked; then the operation's id
#define REST_TRIES 200		// to end what a command has left
#define REST_PAUSE_MS 5
#define TAIL_MAX 400 // bytes of a failed command's output in the error
#define NO_SOURCE SIZE_MAX
#define EMPTY_TAR 1024 // bytes of a tar without entries

// A stage, or what is copied from. Its files are those of the sandbox; without one, those of the
// step; without that, those of the sandbox `source`; else those of its base.
struct build_box {
	char id[ID_BOX_LEN + 1]; // "": none
	struct build_state state;
	char key[SHA256_HEX + 1];     // of its last step; "": not begun
	char step[TEMPLATE_NAME_MAX]; // of manager/build_steps, held; "": none
	size_t source;		      // NO_SOURCE: none
	enum build_base base;
	const char *from;	       // borrowed
	char identity[SHA256_HEX + 1]; // of the base
	char **dirs, **owners; // NULL-ended: of WORKDIR, made once there is a sandbox; their users
	size_t dir_count;
	bool no_cache; // from here on
};

struct build {
	struct manager *manager;
	struct operation *operation;
	struct build_plan plan;
	struct json *limits, *network;
	char *launch; // of the template; NULL: its base's
	struct who who;
	bool pull, keep_failed, no_cache;
	char scratch[TEMPLATE_NAME_MAX]; // the empty layer, held; "": none
	int context;
	uint64_t context_bytes;
	int log;
	char tail[TAIL_MAX + 1];
	size_t tail_len;
	struct env_map secrets;
	struct build_box boxes[BUILD_STAGES_MAX + BUILD_BASES_MAX]; // after those of the stages:
	char *bases[BUILD_BASES_MAX];				    // of these
	struct timer expiry;
};

// --------------------------------------------------------------------------------------------- log

static void build_say(struct build *build, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void build_say(struct build *build, const char *fmt, ...)
{
	char *line = NULL;
	va_list args;
	int len;

	va_start(args, fmt);
	len = vasprintf(&line, fmt, args);
	va_end(args);
	if (len >= 0)
		build_log_write(build->log, build->operation, (struct str){line, (size_t)len});
	free(line);
}

static void build_keep_tail(struct build *build, const char *bytes, size_t len)
{
	size_t keep = len < TAIL_MAX ? len : TAIL_MAX;
	size_t old = build->tail_len < TAIL_MAX - keep ? build->tail_len : TAIL_MAX - keep;

	memmove(build->tail, build->tail + build->tail_len - old, old);
	memcpy(build->tail + old, bytes + len - keep, keep);
	build->tail_len = old + keep;
	build->tail[build->tail_len] = '\0';
}

// ------------------------------------------------------------------------------------------- boxes

static struct files build_files_of(struct build *build, const struct box_ref *ref, int64_t ms)
{
	return (struct files){
		.box = ref->box,
		.user = "",
		.base = "/",
		.deadline = loop_now(build->manager->loop) + ms,
	};
}

static fallible build_ref(struct build *build, size_t stage, struct box_ref *out)
{
	return box_ref_begin(build->manager, &build->who, str_of(build->boxes[stage].id), out);
}

static fallible spec_of(struct build *build, struct spec *out)
{
	auto_buf text = BUF_INIT(1 << 20);
	struct json_out json = json_to(&text);
	auto_json object = NULL;

	json_begin(&json, '{');
	if (build->limits) {
		json_key(&json, "limits");
		json_add_value(&json, build->limits);
	}
	if (build->network) {
		json_key(&json, "network");
		json_add_value(&json, build->network);
	}
	json_end(&json, '}');
	TRY(json_read(buf_view(&text), &object));
	TRY(spec_read(object, &build->manager->bounds, out));
	out->ephemeral = true;
	out->retention.keep_alive = true;
	env_map_set(&out->labels, STR(BOX_BUILD_LABEL), str_of(build->operation->id));
	return OK;
}

// -------------------------------------------------------------------------------------------- base

static void build_say_layers(struct build *build, const struct operation *pull, size_t *told)
{
	while (*told < pull->layer_count) {
		const struct operation_layer *layer = &pull->layers[*told];

		if (strcmp(layer->state, "done") != 0 && strcmp(layer->state, "present") != 0)
			return;
		build_say(build, "layer %zu/%zu %.19s: %s\n", ++*told, pull->layer_count,
			  layer->digest, layer->state);
	}
}

// Pulls the image unless it is there. The build shows the layers' progress.
static fallible base_pull(struct build *build, const char *image)
{
	struct operation *operation = build->operation, *pull = NULL;
	const char *phase = operation->phase;
	struct err *err = OK;
	size_t told = 0;

	TRY(pull_look(build->manager, &build->who, image, build->pull, &pull));
	if (!pull)
		return OK;
	build_say(build, "pull %s\n", pull->reference);
	operation->phase = "pull";
	operation->pulling = pull;
	while (!err && !operation_has_ended(pull)) {
		operation_changed(operation);
		err = condition_wait(&pull->changed, CLOCK_NEVER);
		build_say_layers(build, pull, &told);
	}
	if (!err)
		err = operation_failure(pull);
	operation->pulling = NULL;
	operation->phase = phase;
	operation_drop(pull);
	return err;
}

// The layer without files that FROM scratch begins with.
static fallible scratch_hold(struct build *build)
{
	static const char nothing[EMPTY_TAR];
	const char *tenant = build->who.tenant;
	char diff_id[REFERENCE_DIGEST + 1] = "sha256:", chain[REFERENCE_DIGEST + 1];
	const struct pulled_layer *layer;
	struct sha256 hash;
	int fd = -1;

	if (build->scratch[0])
		return OK;
	sha256_begin(&hash);
	sha256_add(&hash, nothing, sizeof(nothing));
	sha256_end(&hash, diff_id + strlen("sha256:"));
	pulled_chain(NULL, diff_id, chain);
	pulled_layer_name(tenant, chain, build->scratch);
	pulled_hold(build->manager, tenant, build->scratch, true);
	layer = pulled_layer(build->manager, build->scratch);
	if (layer->is_ready && !layer->making)
		return OK;
	TRY(build_source_empty(build->manager, sizeof(nothing), &fd));
	return pulled_make_layer(build->manager, build->scratch, "", diff_id, fd);
}

static fallible base_changed(const char *from)
{
	return err_hint(
		err_new(CONFLICT, "base_changed", "'%.200s' was replaced during the build", from),
		"build it again");
}

static void identity_end(struct sha256 *hash, const char *what, const struct spec *spec,
			 const struct template *template, char out[SHA256_HEX + 1])
{
	auto_free char *made = mem_fmt("%lld %llu", (long long)template->created_ms,
				       (unsigned long long)template->bytes);

	sha256_begin(hash);
	build_key_add(hash, what);
	build_key_add(hash, spec->root[0] ? spec->root : spec->template);
	build_key_add(hash, spec->image_digest);
	build_key_add(hash, made);
	sha256_end(hash, out);
}

// The spec of sandboxes of the base, filled, and what tells it from others. *out_made 0: it is the
// host, of which there is no copy yet.
static fallible base_spec(struct build *build, const struct build_box *box, struct spec *spec,
			  char identity[SHA256_HEX + 1], int64_t *out_made)
{
	auto_free struct template *template = mem_new_of(struct template);
	struct manager *manager = build->manager;
	struct operation *pull = NULL;
	struct sha256 hash;
	bool found = true;

	TRY(spec_of(build, spec));
	*out_made = 1;
	if (box->base == BUILD_FROM_SCRATCH) {
		TRY(scratch_hold(build));
		snprintf(spec->template, sizeof(spec->template), BUILD_SCRATCH);
		memcpy(spec->root, build->scratch, sizeof(spec->root));
	} else {
		if (box->base == BUILD_FROM_IMAGE)
			spec->image = mem_str(box->from);
		else if (!id_is_template(str_of(box->from)) ||
			 strlen(box->from) >= sizeof(spec->template))
			return err_new(INVALID, "bad_template", "'%.80s' is not a template's name",
				       box->from);
		else
			snprintf(spec->template, sizeof(spec->template), "%s", box->from);
		TRY(pull_fill(manager, &build->who, spec, &found, &pull));
	}
	if (pull) { // removed since it was pulled
		operation_drop(pull);
		return base_changed(box->from);
	}
	if (!found) {
		TRY(templates_resolve(manager, &build->who, spec->template));
		TRY(templates_get(manager, &build->who, str_of(box->from), template));
		TRY(snapshot_note_fill(manager, spec));
		*out_made = template->created_ms;
	}
	identity_end(&hash, found ? "image" : "template", spec, template, identity);
	free(take_ptr(spec->image));
	free(take_ptr(spec->launch)); // its steps alone run
	spec->filled = true;
	return OK;
}

// ------------------------------------------------------------------------------------------ boxes

static void box_release_step(struct build *build, struct build_box *box)
{
	build_steps_release(build->manager, box->step);
	box->step[0] = '\0';
}

static void box_forget_dirs(struct build_box *box)
{
	mem_free_list(box->dirs);
	mem_free_list(box->owners);
	box->dirs = box->owners = NULL;
	box->dir_count = 0;
}

static void box_add_dir(struct build_box *box, const char *path, const char *owner)
{
	size_t count = ++box->dir_count;

	box->dirs = mem_grow(box->dirs, count + 1, sizeof(char *));
	box->owners = mem_grow(box->owners, count + 1, sizeof(char *));
	box->dirs[count - 1] = mem_str(path);
	box->owners[count - 1] = mem_str(owner ? owner : "");
	box->dirs[count] = box->owners[count] = NULL;
}

// A sandbox of the base, or with the files of the step.
static fallible box_make(struct build *build, struct build_box *box)
{
	struct create_grant grant = {.who = &build->who};
	const struct record *record = NULL;
	char identity[SHA256_HEX + 1];
	auto_spec spec = {0}, again = {0};
	int64_t was_made;
	bool made;

	TRY(base_spec(build, box, &spec, identity, &was_made));
	if (box->identity[0] && strcmp(identity, box->identity) != 0)
		return base_changed(box->from);
	memcpy(spec.fork, box->step, sizeof(spec.fork));
	ask_name_box(build->manager->ask, spec.id);
	memcpy(box->id, spec.id, sizeof(spec.id));
	kill_point("daemon.build", "sandbox");
	TRY(create_box(build->manager, &grant, &spec, CREATE_NEW, &record, &made));
	if (box->step[0] || !box->identity[0])
		return OK;
	TRY(base_spec(build, box, &again, identity, &was_made));
	return strcmp(identity, box->identity) != 0 ? base_changed(box->from) : OK;
}

// A sandbox with the files of another one of the build.
static fallible box_fork(struct build *build, struct build_box *box)
{
	struct create_grant grant = {.who = &build->who};
	struct fork_request request = {.count = 1, .secrets = true};
	struct fork fork = {0};

	TRY(snapshots_fork(build->manager, &grant, str_of(build->boxes[box->source].id), &request,
			   &fork));
	if (fork.err)
		return fork.err;
	memcpy(box->id, fork.id, sizeof(fork.id));
	return OK;
}

// Makes the sandbox, unless there is one.
static fallible box_need(struct build *build, size_t at)
{
	struct build_box *box = &build->boxes[at];
	auto_box_ref ref = {0};
	struct files files;

	if (!box->id[0])
		TRY(!box->step[0] && box->source != NO_SOURCE ? box_fork(build, box)
							      : box_make(build, box));
	if (!box->dirs)
		return OK;
	TRY(build_ref(build, at, &ref));
	files = build_files_of(build, &ref, FILES_QUICK_MS);
	for (size_t i = 0; i < box->dir_count; i++)
		TRY(build_copy_dir(&files, box->dirs[i], box->owners[i]));
	box_forget_dirs(box);
	box_release_step(build, box);
	return OK;
}

static void box_delete(struct build *build, struct build_box *box)
{
	struct err *err;

	if (!box->id[0])
		return;
	err = life_delete(build->manager, &build->who, str_of(box->id), LIFE_WAITS | LIFE_FORCED);
	if (err && err_kind(err) != ERR_NOT_FOUND)
		log_event(LOG_WARN, "build.sandbox_left", "sandbox", box->id, "trail",
			  err_trail(err), NULL);
	err_free(err);
	box->id[0] = '\0';
}

static void box_drop(struct build *build, size_t at)
{
	struct build_box *box = &build->boxes[at];

	build_state_done(&box->state);
	box_forget_dirs(box);
	box_release_step(build, box);
	box_delete(build, box);
}

// What an import or a build has left in the file.
static fallible config_read(struct build *build, size_t at, struct buf *text)
{
	struct fileop_stat stat;
	auto_closer_fd fd = -1;
	auto_box_ref ref = {0};
	struct files files;
	struct err *err;

	TRY(box_need(build, at));
	TRY(build_ref(build, at, &ref));
	files = build_files_of(build, &ref, FILES_QUICK_MS);
	err = files_read(&files, IMAGE_FILE, text, &fd, &stat);
	if (err && (err_kind(err) == ERR_NOT_FOUND || err_kind(err) == ERR_INVALID)) {
		err_free(err);
		return OK;
	}
	return err;
}

// The configuration of the base: of an image as it was pulled, else that of the file.
static fallible base_config(struct build *build, size_t at, const struct spec *spec)
{
	struct build_box *box = &build->boxes[at];
	auto_buf text = BUF_INIT(IMAGE_BYTES_MAX);
	const struct pulled_image *image;
	const char *known;

	if (box->base == BUILD_FROM_SCRATCH || !strcmp(spec->template, "host"))
		return OK;
	image = pulled_find(build->manager, build->who.tenant, str_of(spec->template));
	if (!image)
		image = pulled_find(build->manager, "", str_of(spec->template));
	if (spec->root[0] && image && image->config)
		return build_state_read(str_of(image->config), &box->state);
	known = build_steps_config(build->manager, box->identity);
	if (known)
		return build_state_read(str_of(known), &box->state);
	TRY(config_read(build, at, &text));
	TRY(build_state_read(buf_view(&text), &box->state));
	build_steps_put_config(build->manager, box->identity, buf_view(&text));
	return OK;
}

// Begins with a base. Its sandbox is made when it is needed.
static fallible box_begin(struct build *build, size_t at, enum build_base base, const char *from)
{
	struct build_box *box = &build->boxes[at];
	auto_spec spec = {0};
	int64_t made;

	box->base = base;
	box->from = from;
	box->source = NO_SOURCE;
	box->no_cache = build->no_cache;
	if (base == BUILD_FROM_IMAGE)
		TRY(base_pull(build, from));
	TRY(base_spec(build, box, &spec, box->identity, &made));
	if (!made) {
		box->identity[0] = '\0';
		TRY(box_need(build, at));
		spec_done(&spec);
		spec = (struct spec){0};
		TRY(base_spec(build, box, &spec, box->identity, &made));
	}
	memcpy(box->key, box->identity, sizeof(box->key));
	TRY(base_config(build, at, &spec));
	if (!box->state.user && spec.user[0])
		box->state.user = mem_str(spec.user);
	if (!box->state.workdir && spec.workdir)
		box->state.workdir = mem_str(spec.workdir);
	return OK;
}

// Begins with the files of an earlier stage.
static void box_begin_with(struct build *build, size_t at, size_t source)
{
	struct build_box *box = &build->boxes[at], *from = &build->boxes[source];
	struct sha256 hash;

	box->base = from->base;
	box->from = from->from;
	memcpy(box->identity, from->identity, sizeof(box->identity));
	box->source = from->id[0] ? source : from->source;
	box->no_cache = from->no_cache;
	memcpy(box->step, from->step, sizeof(box->step));
	build_steps_hold(build->manager, box->step);
	for (size_t i = 0; i < from->dir_count; i++)
		box_add_dir(box, from->dirs[i], from->owners[i]);
	build_state_copy(&from->state, &box->state);
	// Its shell and arguments are not those of that stage.
	sha256_begin(&hash);
	build_key_add(&hash, "stage");
	build_key_add(&hash, from->key);
	sha256_end(&hash, box->key);
}

static fallible stage_begin(struct build *build, size_t at)
{
	const struct build_stage *stage = &build->plan.stages[at];

	build_say(build, "from %s\n", stage->from);
	if (stage->base != BUILD_FROM_STAGE)
		return box_begin(build, at, stage->base, stage->from);
	box_begin_with(build, at, stage->from_at);
	return OK;
}

// ------------------------------------------------------------------------------------------ cache

// Takes what the cache has of that key, in place of the sandbox.
static bool box_hit(struct build *build, size_t at, const char *key)
{
	struct build_box *box = &build->boxes[at];
	char name[TEMPLATE_NAME_MAX];

	if (box->no_cache || !build_steps_find(build->manager, build->who.tenant, key, name))
		return false;
	box_delete(build, box);
	box_release_step(build, box);
	box_forget_dirs(box);
	memcpy(box->step, name, sizeof(box->step));
	memcpy(box->key, key, sizeof(box->key));
	build->operation->cached++;
	build_say(build, "cached\n");
	operation_changed(build->operation);
	return true;
}

// Keeps the files of the sandbox as those of that key.
static fallible box_keep(struct build *build, size_t at, const char *key)
{
	struct build_box *box = &build->boxes[at];
	char name[TEMPLATE_NAME_MAX];

	memcpy(name, box->step, sizeof(name));
	TRY(build_steps_keep(build->manager, &build->who, box->id, key, box->no_cache, name));
	box_release_step(build, box);
	memcpy(box->step, name, sizeof(box->step));
	memcpy(box->key, key, sizeof(box->key));
	return OK;
}

// ------------------------------------------------------------------------------------------- steps

static fallible run_argv(const struct build_state *state, const struct build_step *step,
			 struct arena *arena, const char *const **out)
{
	static const char *const shell[] = {"/bin/sh", "-c", NULL};
	const char *const *prefix = step->is_list  ? NULL
				    : state->shell ? (const char *const *)state->shell
						   : shell;
	const char **argv;
	size_t count = 0;

	while (prefix && prefix[count])
		count++;
	argv = arena_take(arena, (count + step->count + 1) * sizeof(*argv));
	for (size_t i = 0; i < count; i++)
		argv[i] = prefix[i];
	for (size_t i = 0; i < step->count; i++)
		argv[count + i] = step->words[i];
	*out = argv;
	return OK;
}

static fallible run_follow(struct build *build, struct manager_exec *exec)
{
	struct tape *tape = manager_exec_tape(exec);
	auto_free char *room = mem_new(LOG_PIECE);
	enum tape_stream stream;
	uint64_t offset = 0;
	size_t len = 1;

	while (len) {
		TRY(tape_read(tape, &offset, &stream, room, LOG_PIECE, &len, CLOCK_NEVER));
		if (!len)
			break;
		build_keep_tail(build, room, len);
		build_log_write(build->log, build->operation, (struct str){room, len});
	}
	if (tape_truncated(tape, TAPE_STDOUT) || tape_truncated(tape, TAPE_STDERR))
		build_say(build, "[cove: the output was more than outputMB; the rest is lost]\n");
	return OK;
}

static fallible run_failed(struct build *build, const struct exec_result *result)
{
	struct err *err;

	if (result->ending == ENDING_EXITED)
		err = err_new(INVALID, "build_failed", "the command ended with exit code %d",
			      result->exit_code);
	else
		err = err_new(INVALID, "build_failed", "the command was ended: %s",
			      ending_word(result->ending));
	for (size_t i = 0; i < build->tail_len; i++)
		if (build->tail[i] == '\n')
			build->tail[i] = ' ';
	return build->tail_len ? err_hint(err, "its last output: %s", build->tail) : err;
}

// What `from` means: a stage before this one, or an image or template, begun now.
static fallible build_find_box(struct build *build, size_t stage, const char *from, size_t *out)
{
	int64_t found = build_plan_find_stage(&build->plan, stage, str_of(from));
	bool is_template = str_starts(str_of(from), TEMPLATE_MARK);
	size_t at = 0;

	if (found >= 0) {
		*out = (size_t)found;
		return OK;
	}
	while (at < BUILD_BASES_MAX && build->bases[at] && strcmp(build->bases[at], from) != 0)
		at++;
	if (at == BUILD_BASES_MAX)
		return err_new(INVALID, "bad_plan", "the plan copies from more than %d images",
			       BUILD_BASES_MAX);
	*out = BUILD_STAGES_MAX + at;
	if (build->bases[at])
		return OK;
	build->bases[at] = mem_str(from);
	return box_begin(build, *out, is_template ? BUILD_FROM_TEMPLATE : BUILD_FROM_IMAGE,
			 build->bases[at] + (is_template ? strlen(TEMPLATE_MARK) : 0));
}

// ------------------------------------------------------------------------------------------- copy

// What a copy reads: the context, or a tar for each source of another sandbox; and its own files.
struct build_sources {
	struct build_archive *at;
	size_t count;
	char **words; // NULL-ended: sources
	size_t word_count;
};

static void build_sources_done(struct build_sources *sources)
{
	for (size_t i = 0; i < sources->count; i++)
		build_archive_done(&sources->at[i]);
	free(sources->at);
	mem_free_list(sources->words);
}

static void sources_add_word(struct build_sources *sources, char *word)
{
	sources->words = mem_grow(sources->words, sources->word_count + 2, sizeof(char *));
	sources->words[sources->word_count++] = word;
	sources->words[sources->word_count] = NULL;
}

static struct build_archive *sources_add(struct build_sources *sources)
{
	sources->at = mem_grow(sources->at, sources->count + 1, sizeof(*sources->at));
	sources->at[sources->count] = (struct build_archive){.fd = -1};
	return &sources->at[sources->count++];
}

static fallible sources_add_context(struct build *build, struct build_sources *sources)
{
	struct build_archive *archive;

	if (build->context < 0)
		return err_hint(err_new(INVALID, "no_context", "there is no context to copy from"),
				"send one by PUT /v1/blobs/DIGEST, and name it by 'context'");
	archive = sources_add(sources);
	archive->fd = fcntl(build->context, F_DUPFD_CLOEXEC, 3);
	if (archive->fd < 0)
		return err_sys(errno, "copy the fd of a context");
	archive->bytes = build->context_bytes;
	return OK;
}

// Packs each source, a word of `sources`, from the other sandbox.
static fallible sources_add_box(struct build *build, size_t stage, const char *from,
				struct build_sources *sources)
{
	auto_box_ref ref = {0};
	struct files files;
	size_t at = 0;

	TRY(build_find_box(build, stage, from, &at));
	TRY(box_need(build, at));
	TRY(build_ref(build, at, &ref));
	files = build_files_of(build, &ref, FILES_MS);
	for (size_t i = 0; i < sources->word_count; i++)
		TRY(build_source_pack(build->manager, &build->who, &files, sources->words[i],
				      sources_add(sources)));
	return OK;
}

static fallible sources_add_files(struct build *build, size_t at, const struct build_step *step,
				  struct build_sources *sources)
{
	for (size_t i = 0; i < step->file_count; i++) {
		auto_free char *content = NULL;
		char *path = mem_fmt(BUILD_OWN_FILES "%s", step->files[i].name);

		sources_add_word(sources, path);
		TRY(build_state_expand_file(&build->boxes[at].state, &build->plan, &step->files[i],
					    &content));
		TRY(build_source_file(build->manager, path, str_of(content), sources_add(sources)));
	}
	return OK;
}

// Archives among the sources of ADD: their files go beneath the destination.
static fallible copy_unpack_found(struct build *build, const struct files *files,
				  const struct build_copy *copy, size_t found_count,
				  uint64_t *out_count)
{
	auto_free char *name = mem_fmt(ARCHIVE_TEMPLATE "%s", build->operation->id);
	auto_free char *to = mem_fmt("%s/", copy->to);

	if (!copy->found)
		return OK;
	for (size_t i = 0; i < found_count; i++) {
		const struct build_found *found = &copy->found[i];
		auto_build_archive archive = {.fd = -1};
		struct build_copy inner = {.archives = &archive,
					   .archive_count = 1,
					   .count = 1,
					   .to = to,
					   .chown = copy->chown,
					   .keep_owners = !copy->chown};
		char *words[2] = {NULL, NULL};
		uint64_t count = 0;

		TRY(build_source_unpack(build->manager, &build->who, name, found,
					copy->archives[found->archive].fd, &archive));
		words[0] = archive.root;
		inner.sources = words;
		TRY(build_copy(files, &inner, &count));
		*out_count += count;
	}
	return OK;
}

// A copy step with its variables replaced.
struct build_copying {
	struct build_sources sources;
	char *chown, *chmod, *last, *to;
};

static void copying_drop(struct build_copying *copying)
{
	build_sources_done(&copying->sources);
	free(copying->chown);
	free(copying->chmod);
	free(copying->last);
	free(copying->to);
}

static fallible step_copy_read(struct build *build, size_t at, const struct build_step *step,
			       struct build_copying *out)
{
	const struct build_state *state = &build->boxes[at].state;

	for (size_t i = 0; i + 1 < step->count; i++) {
		char *word = NULL;

		TRY(build_state_expand(state, &build->plan, step->words[i], &word));
		sources_add_word(&out->sources, word);
	}
	TRY(build_state_expand(state, &build->plan, step->words[step->count - 1], &out->last));
	if (step->chown)
		TRY(build_state_expand(state, &build->plan, step->chown, &out->chown));
	if (step->chmod)
		TRY(build_state_expand(state, &build->plan, step->chmod, &out->chmod));
	return build_state_path(state, out->last, &out->to);
}

// What the key of a copy or of a bind mount is beside the step: what is copied.
static fallible sources_end_key(const struct build_sources *sources, struct sha256 *key,
				char out[SHA256_HEX + 1])
{
	struct build_copy copy = {
		.archives = sources->at,
		.archive_count = sources->count,
		.sources = sources->words,
		.count = sources->word_count,
	};

	TRY(build_copy_hash(&copy, key));
	sha256_end(key, out);
	return OK;
}

static fallible step_copy_do(struct build *build, size_t at, const struct build_step *step,
			     const struct build_copying *copying)
{
	auto_free struct build_found *found = mem_new(BUILD_FOUND_MAX * sizeof(*found));
	size_t found_count = 0;
	struct build_copy copy = {
		.archives = copying->sources.at,
		.archive_count = copying->sources.count,
		.sources = copying->sources.words,
		.count = copying->sources.word_count,
		.to = copying->to,
		.chown = copying->chown,
		.chmod = copying->chmod,
		.found = step->kind == BUILD_ADD ? found : NULL,
		.found_count = &found_count,
	};
	auto_box_ref ref = {0};
	struct files files;
	uint64_t count = 0;

	TRY(box_need(build, at));
	TRY(build_ref(build, at, &ref));
	files = build_files_of(build, &ref, FILES_MS);
	TRY(build_copy(&files, &copy, &count));
	TRY(copy_unpack_found(build, &files, &copy, found_count, &count));
	build_say(build, "%llu entries\n", (unsigned long long)count);
	return OK;
}

// The key of a copy from another box before its sources are read: with that box's own key.
static fallible copy_quick_key(struct build *build, size_t at, const struct build_step *step,
			       char out[SHA256_HEX + 1])
{
	const struct build_box *box = &build->boxes[at];
	struct sha256 key;
	size_t source = 0;

	TRY(build_find_box(build, at, step->from, &source));
	build_key_begin(&key, box->key, &build->plan, step, &box->state);
	build_key_add(&key, build->boxes[source].key);
	sha256_end(&key, out);
	return OK;
}

static fallible step_copy(struct build *build, size_t at, const struct build_step *step)
{
	on_exit_call(copying_drop) struct build_copying copying = {0};
	char quick[SHA256_HEX + 1] = "", key[SHA256_HEX + 1];
	struct build_box *box = &build->boxes[at];
	struct sha256 hash;
	bool hit;

	TRY(step_copy_read(build, at, step, &copying));
	if (step->from)
		TRY(copy_quick_key(build, at, step, quick));
	if (step->from && build_steps_follow(build->manager, build->who.tenant, quick, key) &&
	    box_hit(build, at, key))
		return OK;
	if (step->from)
		TRY(sources_add_box(build, at, step->from, &copying.sources));
	else if (step->count > 1)
		TRY(sources_add_context(build, &copying.sources));
	TRY(sources_add_files(build, at, step, &copying.sources));
	build_key_begin(&hash, box->key, &build->plan, step, &box->state);
	TRY(sources_end_key(&copying.sources, &hash, key));
	hit = box_hit(build, at, key);
	if (!hit) {
		TRY(step_copy_do(build, at, step, &copying));
		TRY(box_keep(build, at, key));
	}
	if (step->from)
		build_steps_alias(build->manager, build->who.tenant, quick, key);
	return OK;
}

// -------------------------------------------------------------------------------------------- run

struct build_bind {
	struct build *build;
	size_t stage;
	const struct files *files;
};

static fallible bind_copy(void *arg, const struct build_mount *mount, const char *target)
{
	struct build_bind *bind = arg;
	on_exit_call(build_sources_done) struct build_sources sources = {0};
	struct build_copy copy = {.to = target};
	uint64_t count;

	sources_add_word(&sources, mem_str(mount->source ? mount->source : "."));
	if (mount->from)
		TRY(sources_add_box(bind->build, bind->stage, mount->from, &sources));
	else
		TRY(sources_add_context(bind->build, &sources));
	copy.archives = sources.at;
	copy.archive_count = sources.count;
	copy.sources = sources.words;
	copy.count = sources.word_count;
	return build_copy(bind->files, &copy, &count);
}

static fallible run_command(struct build *build, size_t at, const struct build_step *step,
			    const struct env_map *secrets)
{
	const struct build_state *state = &build->boxes[at].state;
	auto_manager_exec exec = NULL;
	auto_arena arena = arena_new();
	auto_pairs env = {0};
	struct exec_result result;
	struct manager_exec_spec spec = {
		.env = &env,
		.cwd = state->workdir ? state->workdir : "/",
		.user = state->user,
		.wall_ms = RUN_MS,
	};

	TRY(run_argv(state, step, arena, &spec.argv));
	env_map_add(&env, &state->args);
	env_map_add(&env, &state->env);
	env_map_add(&env, secrets);
	build->tail_len = 0;
	TRY(manager_exec_start(build->manager, &build->who, str_of(build->boxes[at].id), &spec,
			       &exec));
	TRY(run_follow(build, exec));
	TRY(manager_exec_wait(exec, &result));
	if (result.ending == ENDING_EXITED && !result.exit_code)
		return OK;
	return run_failed(build, &result);
}

// Ends what the command has left running, as its container would have ended: the files that are
// kept must not change any more.
static fallible run_end_rest(struct build *build, size_t at)
{
	auto_box_ref ref = {0};
	struct files files;
	uint32_t left = 1;

	TRY(build_ref(build, at, &ref));
	files = build_files_of(build, &ref, FILES_QUICK_MS);
	for (int i = 0; i < REST_TRIES; i++) {
		TRY(files_sweep(&files, 1, 0, SIGKILL, &left));
		if (!left)
			return OK;
		TRY(task_sleep_until(loop_now(build->manager->loop) + REST_PAUSE_MS));
	}
	return err_new(INVALID, "build_failed", "the command has left processes that do not end");
}

static void secrets_done(struct env_map *secrets)
{
	for (size_t i = 0; i < secrets->count; i++)
		secret_wipe(secrets->at[i].value, strlen(secrets->at[i].value));
	env_map_done(secrets);
}

static fallible run_mounted(struct build *build, size_t at, const struct build_step *step,
			    char *const *texts)
{
	const struct build_state *state = &build->boxes[at].state;
	on_exit_call(secrets_done) struct env_map secrets = {0};
	struct build_mounts *mounts = NULL;
	auto_box_ref ref = {0};
	struct files files;
	struct build_bind bind = {build, at, &files};
	struct build_mounts_ask ask = {
		.manager = build->manager,
		.who = &build->who,
		.files = &files,
		.workdir = state->workdir ? state->workdir : "/",
		.secrets = &build->secrets,
		.bind = bind_copy,
		.arg = &bind,
		.env = &secrets,
	};
	struct err *err, *end;

	TRY(build_ref(build, at, &ref));
	files = build_files_of(build, &ref, RUN_MS + 2 * FILES_MS);
	TRY(build_mounts_begin(&ask, texts, &mounts));
	err = run_command(build, at, step, &secrets);
	files.deadline = loop_now(build->manager->loop) + FILES_MS;
	task_shield(true);
	end = build_mounts_end(mounts);
	task_shield(false);
	if (!err)
		return end;
	err_free(end);
	return err;
}

static void texts_done(char ***texts)
{
	mem_free_list(*texts);
}

// A bind mount is part of the key: what it shows, or the key of the box that it is of.
static fallible mount_add_key(struct build *build, size_t at, const char *text, struct sha256 *key)
{
	on_exit_call(build_sources_done) struct build_sources sources = {0};
	auto_build_mount mount = {0};
	char content[SHA256_HEX + 1];
	struct sha256 hash;
	size_t source = 0;

	TRY(build_mount_read(str_of(text), &mount));
	if (mount.type != BUILD_MOUNT_BIND)
		return OK;
	if (mount.from) {
		TRY(build_find_box(build, at, mount.from, &source));
		build_key_add(key, build->boxes[source].key);
		return OK;
	}
	sources_add_word(&sources, mem_str(mount.source ? mount.source : "."));
	TRY(sources_add_context(build, &sources));
	sha256_begin(&hash);
	TRY(sources_end_key(&sources, &hash, content));
	build_key_add(key, content);
	return OK;
}

static fallible run_key(struct build *build, size_t at, const struct build_step *step,
			char *const *texts, char out[SHA256_HEX + 1])
{
	const struct build_box *box = &build->boxes[at];
	struct sha256 key;

	build_key_begin(&key, box->key, &build->plan, step, &box->state);
	for (; texts && *texts; texts++)
		TRY(mount_add_key(build, at, *texts, &key));
	sha256_end(&key, out);
	return OK;
}

static fallible step_run(struct build *build, size_t at, const struct build_step *step)
{
	on_exit_call(texts_done) char **texts = NULL;
	char key[SHA256_HEX + 1];

	for (size_t i = 0; step->mounts && step->mounts[i]; i++) {
		texts = mem_grow(texts, i + 2, sizeof(char *));
		texts[i] = texts[i + 1] = NULL;
		TRY(build_state_expand(&build->boxes[at].state, &build->plan, step->mounts[i],
				       &texts[i]));
	}
	TRY(run_key(build, at, step, texts, key));
	if (box_hit(build, at, key))
		return OK;
	TRY(box_need(build, at));
	TRY(texts ? run_mounted(build, at, step, texts)
		  : run_command(build, at, step, &(struct env_map){0}));
	TRY(run_end_rest(build, at));
	return box_keep(build, at, key);
}

// The directory is made with the next step that has a sandbox. It is in no layer of its own.
static fallible step_workdir(struct build *build, size_t at)
{
	struct build_box *box = &build->boxes[at];

	box_add_dir(box, box->state.workdir, box->state.user);
	return box->id[0] ? box_need(build, at) : OK;
}

static fallible step_do(struct build *build, size_t at, const struct build_step *step)
{
	struct build_box *box = &build->boxes[at];
	struct sha256 key;

	box->no_cache |= step->no_cache;
	if (step->kind == BUILD_RUN)
		return step_run(build, at, step);
	if (step->kind == BUILD_COPY || step->kind == BUILD_ADD)
		return step_copy(build, at, step);
	build_key_begin(&key, box->key, &build->plan, step, &box->state);
	sha256_end(&key, box->key);
	TRY(build_state_apply(&box->state, &build->plan, step));
	return step->kind == BUILD_WORKDIR ? step_workdir(build, at) : OK;
}

static void step_announce(struct build *build, const struct build_step *step)
{
	struct operation *operation = build->operation;
	const char *word = step->text ? step->text : build_kind_word(step->kind);

	operation->step++;
	operation->phase = build_kind_word(step->kind);
	build_say(build, "step %u/%u: %s%s%.160s\n", operation->step, operation->steps, word,
		  step->text ? "" : " ",
		  step->text	? ""
		  : step->words ? step->words[0]
				: "");
	operation_changed(operation);
}

// Says which step has failed.
static fallible step_explain(const struct build *build, const struct build_step *step,
			     struct err *err)
{
	char line[32] = "";
	auto_free char *reason = NULL, *hint = NULL;

	if (!err || err_kind(err) == ERR_CANCELLED || err_kind(err) == ERR_INTERNAL)
		return err;
	if (step->line)
		snprintf(line, sizeof(line), " (line %u)", step->line);
	reason = mem_str(err_reason(err));
	if (err_hint_of(err))
		hint = mem_str(err_hint_of(err));
	err = err_recast(err, err_kind(err), reason, "step %u/%u%s, %s: %s", build->operation->step,
			 build->operation->steps, line, build_kind_word(step->kind),
			 err_message(err));
	return hint ? err_hint(err, "%s", hint) : err;
}

static fallible stage_run(struct build *build, size_t at)
{
	const struct build_stage *stage = &build->plan.stages[at];

	TRY(stage_begin(build, at));
	for (size_t i = 0; i < stage->count; i++) {
		struct err *err;

		step_announce(build, &stage->steps[i]);
		kill_point("daemon.build", "step");
		err = step_do(build, at, &stage->steps[i]);
		if (err && build->keep_failed && err_kind(err) != ERR_CANCELLED &&
		    build->boxes[at].id[0]) {
			build_say(build, "the sandbox %s is kept\n", build->boxes[at].id);
			build->boxes[at].id[0] = '\0';
		}
		TRY(step_explain(build, &stage->steps[i], err));
	}
	return OK;
}

// ---------------------------------------------------------------------------------------- template

static fallible build_check_template(struct build *build)
{
	auto_free struct template *template = mem_new_of(struct template);
	struct err *err = templates_get(build->manager, &build->who, str_of(build->operation->name),
					template);

	if (err && err_kind(err) == ERR_NOT_FOUND) {
		err_free(err);
		return OK;
	}
	TRY(err);
	if (!strcmp(template->kind, "built"))
		return OK;
	return err_hint(err_new(CONFLICT, "template_exists",
				"there is a template '%s' already, which was not built",
				build->operation->name),
			"choose another name, or delete that one first");
}

static fallible config_write(struct build *build, size_t at)
{
	auto_buf text = BUF_INIT(IMAGE_BYTES_MAX);
	auto_box_ref ref = {0};
	struct files files;

	if (build->launch) {
		free(build->boxes[at].state.launch);
		build->boxes[at].state.launch = mem_str(build->launch);
	}
	TRY(build_state_write(&build->boxes[at].state, &text));
	TRY(build_ref(build, at, &ref));
	files = build_files_of(build, &ref, FILES_QUICK_MS);
	return files_write(&files, IMAGE_FILE, 0, 0644, buf_view(&text));
}

static fallible build_make_template(struct build *build, size_t at)
{
	struct str name = str_of(build->operation->name);
	struct snapshot snapshot;

	build->operation->phase = "snapshot";
	operation_changed(build->operation);
	TRY(box_need(build, at));
	TRY(config_write(build, at), "write the configuration");
	TRY(build_check_template(build));
	kill_point("daemon.build", "snapshot");
	TRY(snapshots_replace(build->manager, &build->who, str_of(build->boxes[at].id), name,
			      &snapshot));
	build->operation->made = true;
	return OK;
}

static fallible build_all(struct build *build)
{
	size_t last = build->plan.count - 1;

	for (size_t i = 0; i <= last; i++)
		if (build_plan_needs(&build->plan, i))
			TRY(stage_run(build, i));
	return build_make_template(build, last);
}

// --------------------------------------------------------------------------------------------- all

static void build_publish(const struct build *build, const struct err *err)
{
	const struct operation *operation = build->operation;

	log_event(LOG_INFO, "build.ended", "operation", operation->id, "template", operation->name,
		  "reason", err ? err_reason(err) : "", "trail", err ? err_trail(err) : "", NULL);
	event_publish(EVENT_BUILD_ENDED, "tenant", operation->tenant, "operation", operation->id,
		      "template", operation->name, "reason", err ? err_reason(err) : NULL, NULL);
	if (!err)
		event_publish(EVENT_TEMPLATE_MADE, "tenant", operation->tenant, "template",
			      operation->name, NULL);
}

static void build_free(struct build *build)
{
	pulled_hold(build->manager, build->who.tenant, build->scratch, false);
	closer_drop(&build->context);
	closer_drop(&build->log);
	build_plan_done(&build->plan);
	json_free(build->limits);
	json_free(build->network);
	free(build->launch);
	secrets_done(&build->secrets);
	for (size_t i = 0; i < BUILD_BASES_MAX; i++)
		free(build->bases[i]);
	free(build);
}

static void build_expired(struct timer *timer)
{
	struct build *build = link_of(timer, struct build, expiry);

	if (build->operation->task)
		task_cancel(build->operation->task);
}

static void build_run(void *arg)
{
	struct build *build = arg;
	struct operation *operation = build->operation;
	struct manager *manager = build->manager;
	int64_t ends = loop_now(manager->loop) + BUILD_MS;
	struct err *err;

	operation->state = OPERATION_RUNNING;
	event_publish(EVENT_BUILD_STARTED, "tenant", operation->tenant, "operation", operation->id,
		      "template", operation->name, NULL);
	build->expiry.due = build_expired;
	loop_set_timer(manager->loop, &build->expiry, ends);
	err = build_all(build);
	loop_drop_timer(manager->loop, &build->expiry);
	task_shield(true);
	if (err && err_kind(err) == ERR_CANCELLED && !operation->cancelled &&
	    loop_now(manager->loop) >= ends)
		err = err_recast(err, ERR_TIMEOUT, "build_timeout",
				 "the build took longer than two hours");
	for (size_t i = 0; i < sizeof(build->boxes) / sizeof(*build->boxes); i++)
		box_drop(build, i);
	if (err)
		build_say(build, "failed: %s\n", err_message(err));
	else
		build_say(build, "made the template %s\n", operation->name);
	build_publish(build, err);
	operations_end(manager, operation, err);
	build_free(build);
}

static uint32_t builds_of(const struct manager *manager, const char *tenant)
{
	struct operation *operation;
	uint32_t count = 0;

	for (size_t at = 0; operations_next(manager, &at, &operation);)
		count += operation->kind == OPERATION_BUILD && !operation_has_ended(operation) &&
			 !strcmp(operation->tenant, tenant);
	return count;
}

static fallible build_check(struct build *build, const struct build_ask *ask)
{
	auto_spec spec = {0};

	if (!id_is_template(ask->name) ||
	    ask->name.len + strlen(build->who.tenant) + 1 >= TEMPLATE_NAME_MAX ||
	    str_is(ask->name, "host"))
		return err_hint(err_new(INVALID, "bad_template", "this is not a template's name"),
				"1 to 63 of a-z, 0-9 and ._-, and not 'host'");
	TRY(spec_of(build, &spec));
	TRY(build_check_template(build));
	if (ask->context.at)
		TRY(build_context_open(build->manager, build->who.tenant, ask->context,
				       &build->context, &build->context_bytes));
	if (builds_of(build->manager, build->who.tenant) >= BUILDS_OF_TENANT)
		return err_hint(err_new(EXHAUSTED, "too_many_imports",
					"%d builds are under way already", BUILDS_OF_TENANT),
				"wait until one of them is done");
	return OK;
}

void build_ask_done(struct build_ask *ask)
{
	build_plan_done(&ask->plan);
	secrets_done(&ask->secrets);
	json_free(ask->limits);
	json_free(ask->network);
	free(ask->launch);
	*ask = (struct build_ask){0};
}

static struct build *build_new(struct manager *manager, const struct who *who,
			       struct build_ask *ask)
{
	struct build *build = mem_new_of(struct build);
	struct operation *operation = mem_new_of(struct operation);

	*build = (struct build){
		.manager = manager,
		.operation = operation,
		.plan = ask->plan,
		.limits = take_ptr(ask->limits),
		.network = take_ptr(ask->network),
		.launch = take_ptr(ask->launch),
		.who = *who,
		.pull = ask->pull,
		.keep_failed = ask->keep_failed,
		.no_cache = ask->no_cache,
		.secrets = ask->secrets,
		.context = -1,
		.log = -1,
	};
	ask->plan = (struct build_plan){0};
	ask->secrets = (struct env_map){0};
	operation->manager = manager;
	operation->kind = OPERATION_BUILD;
	operation->reference = mem_str("");
	operation->platform = mem_str("");
	operation->name = mem_dup(ask->name.at ? ask->name.at : "", ask->name.len);
	snprintf(operation->tenant, sizeof(operation->tenant), "%s", who->tenant);
	for (size_t i = 0; i < build->plan.count; i++)
		if (build_plan_needs(&build->plan, i))
			operation->steps += (uint32_t)build->plan.stages[i].count;
	return build;
}

fallible builds_begin(struct manager *manager, const struct create_grant *grant,
		      struct build_ask *ask, struct operation **out)
{
	struct build *build;
	struct operation *operation;
	struct err *err;

	TRY(access_ask(grant->who, ACCESS_TEMPLATES));
	TRY(pulled_ready(manager));
	if (!manager->pull)
		return err_new(NOT_OFFERED, "no_builds", "templates cannot be built here");
	build = build_new(manager, grant->who, ask);
	operation = build->operation;
	err = build_check(build, ask);
	if (err) {
		operation_free(operation);
		build_free(build);
		return err;
	}
	err = operations_add(manager, operation);
	if (!err) {
		operation->holds++;
		err = build_log_create(manager, operation, &build->log);
		if (!err && operation->cancelled)
			err = err_new(CANCELLED, "cancelled", "cancelled");
		if (!err) {
			operation->task = task_start(manager->loop, "build", build_run, build);
			*out = operation;
			return OK;
		}
		operations_end(manager, operation, err);
		err = operation_failure(operation);
		operation_drop(operation);
	}
	build_free(build);
	return err;
}

// ------------------------------------------------------------------------------------------ resume

struct leftover {
	struct manager *manager;
	struct operation *operation;
};

static struct entry *leftover_box(const struct manager *manager, const struct operation *operation)
{
	list_each (at, &manager->entries) {
		struct entry *entry = link_of(at, struct entry, link);
		const char *label = env_map_get(&entry->record.labels, STR(BOX_BUILD_LABEL));

		if (entry->listed && !entry->ending && label && !strcmp(label, operation->id))
			return entry;
	}
	return NULL;
}

// The template of an archive that was being unpacked.
static void archive_drop(struct manager *manager, const struct operation *operation)
{
	auto_free char *name = mem_fmt(ARCHIVE_TEMPLATE "%s", operation->id);
	struct who owner = WHO_COVE;
	auto_err err = OK;

	snprintf(owner.tenant, sizeof(owner.tenant), "%s", operation->tenant);
	err = templates_forget(manager, &owner, str_of(name));
	if (err && err_kind(err) != ERR_NOT_FOUND)
		log_event(LOG_WARN, "build.template_left", "template", name, "trail",
			  err_trail(err), NULL);
}

static void build_interrupted(void *arg)
{
	struct leftover *left = arg;
	struct who cove = WHO_COVE;
	struct entry *entry;

	task_shield(true);
	while ((entry = leftover_box(left->manager, left->operation))) {
		char id[ID_BOX_LEN + 1];
		auto_err err = OK;

		memcpy(id, entry->record.id, sizeof(id));
		err = life_delete(left->manager, &cove, str_of(id), LIFE_WAITS | LIFE_FORCED);
		if (err && err_kind(err) != ERR_NOT_FOUND) {
			log_event(LOG_WARN, "build.sandbox_left", "sandbox", id, "trail",
				  err_trail(err), NULL);
			break;
		}
	}
	archive_drop(left->manager, left->operation);
	operations_end(
		left->manager, left->operation,
		err_hint(err_new(UNAVAILABLE, "interrupted", "cove was restarted during the build"),
			 "build it again"));
	free(left);
}

static void build_settle_steps(void *arg)
{
	auto_err err = build_steps_settle(arg);

	if (err)
		log_event(LOG_WARN, "build.cache_unsettled", "trail", err_trail(err), NULL);
}

void builds_resume(struct manager *manager)
{
	struct operation *operation;
	auto_err unknown = pulled_ready(manager);

	if (!manager->pull || unknown)
		return;
	task_start(manager->loop, "steps", build_settle_steps, manager);
	for (size_t at = 0; operations_next(manager, &at, &operation);) {
		struct leftover *left;

		if (operation->kind != OPERATION_BUILD || operation->state != OPERATION_QUEUED ||
		    !operation->earlier || operation->task)
			continue;
		operation->manager = manager;
		left = mem_new_of(struct leftover);
		*left = (struct leftover){manager, operation};
		operation->task = task_start(manager->loop, "unbuild", build_interrupted, left);
	}
}
