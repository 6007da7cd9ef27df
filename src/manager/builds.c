// A build is a task that reads top to bottom: for each stage a sandbox from its base and the steps
// in it, then a snapshot of the last one. Commands run as those of any sandbox of the tenant, with
// its limits, network policy and ledger. What is not a step is removed at the end: on success, on
// failure, and by the next daemon if this one is killed.
#include "manager/builds.h"

#include <errno.h>
#include <fcntl.h>
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
#include "manager/build_mounts.h"
#include "manager/build_source.h"
#include "manager/manager.h"
#include "manager/pull.h"
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
#define TAIL_MAX 400		// bytes of a failed command's output in the error

struct build_box {
	char id[ID_BOX_LEN + 1]; // "": none
	struct build_state state;
};

struct build {
	struct manager *manager;
	struct operation *operation;
	struct build_plan plan;
	struct json *limits, *network;
	struct who who;
	bool pull, keep_failed;
	bool kept; // the sandbox of a failed step stays
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
	env_map_set(&out->labels, STR(BUILD_LABEL), str_of(build->operation->id));
	return OK;
}

// The sandbox of an image or template. Its record has the base's environment, user and directory.
static fallible box_make(struct build *build, size_t at, enum build_base base, const char *from)
{
	struct create_grant grant = {.who = &build->who};
	const struct record *record = NULL;
	auto_spec spec = {0};
	bool made;

	TRY(spec_of(build, &spec));
	if (base == BUILD_FROM_IMAGE) {
		spec.image = mem_str(from);
		spec.pull = build->pull ? SPEC_PULL_ALWAYS : SPEC_PULL_MISSING;
	} else {
		if (!id_is_template(str_of(from)) || strlen(from) >= sizeof(spec.template))
			return err_new(INVALID, "bad_template", "'%.80s' is not a template's name",
				       from);
		snprintf(spec.template, sizeof(spec.template), "%s", from);
	}
	ask_name_box(build->manager->ask, spec.id);
	memcpy(build->boxes[at].id, spec.id, sizeof(spec.id));
	return create_box(build->manager, &grant, &spec, CREATE_NEW, &record, &made);
}

// A sandbox with the files of an earlier stage.
static fallible box_fork(struct build *build, size_t at)
{
	struct build_box *source = &build->boxes[build->plan.stages[at].from_at];
	struct create_grant grant = {.who = &build->who};
	struct fork_request request = {.count = 1, .secrets = true};
	struct fork fork = {0};

	TRY(snapshots_fork(build->manager, &grant, str_of(source->id), &request, &fork));
	if (fork.err)
		return fork.err;
	memcpy(build->boxes[at].id, fork.id, sizeof(fork.id));
	build_state_copy(&source->state, &build->boxes[at].state);
	return OK;
}

// Commands, labels and ports of the base: of an image as it was pulled, else what an
// import or a build has left in the file.
static fallible base_config(struct build *build, size_t at)
{
	struct build_box *box = &build->boxes[at];
	auto_buf text = BUF_INIT(IMAGE_BYTES_MAX);
	const struct pulled_image *image;
	struct fileop_stat stat;
	auto_closer_fd fd = -1;
	auto_box_ref ref = {0};
	struct files files;
	struct err *err;

	TRY(build_ref(build, at, &ref));
	image = pulled_find(build->manager, ref.entry->record.tenant,
			    str_of(ref.entry->record.template));
	if (ref.entry->record.root[0] && image && image->config)
		return build_state_read(str_of(image->config), &box->state);
	if (!strcmp(ref.entry->record.template, "host"))
		return OK;
	files = build_files_of(build, &ref, FILES_QUICK_MS);
	err = files_read(&files, IMAGE_FILE, &text, &fd, &stat);
	if (err && (err_kind(err) == ERR_NOT_FOUND || err_kind(err) == ERR_INVALID)) {
		err_free(err);
		return OK;
	}
	TRY(err);
	return build_state_read(buf_view(&text), &box->state);
}

static fallible stage_begin(struct build *build, size_t at)
{
	const struct build_stage *stage = &build->plan.stages[at];

	build_say(build, "from %s\n", stage->from);
	kill_point("daemon.build", "sandbox");
	if (stage->base == BUILD_FROM_STAGE)
		return box_fork(build, at);
	TRY(box_make(build, at, stage->base, stage->from));
	return base_config(build, at);
}

static void box_drop(struct build *build, size_t at)
{
	struct err *err;

	build_state_done(&build->boxes[at].state);
	if (!build->boxes[at].id[0])
		return;
	err = life_delete(build->manager, &build->who, str_of(build->boxes[at].id),
			  LIFE_WAITS | LIFE_FORCED);
	if (err && err_kind(err) != ERR_NOT_FOUND)
		log_event(LOG_WARN, "build.sandbox_left", "sandbox", build->boxes[at].id, "trail",
			  err_trail(err), NULL);
	err_free(err);
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

// The sandbox that `from` means: a stage before this one, or of an image or template, made now.
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
	return box_make(build, *out, is_template ? BUILD_FROM_TEMPLATE : BUILD_FROM_IMAGE,
			from + (is_template ? strlen(TEMPLATE_MARK) : 0));
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

static fallible step_copy(struct build *build, size_t at, const struct build_step *step)
{
	const struct build_state *state = &build->boxes[at].state;
	on_exit_call(build_sources_done) struct build_sources sources = {0};
	auto_free struct build_found *found = mem_new(BUILD_FOUND_MAX * sizeof(*found));
	auto_free char *chown = NULL, *chmod = NULL, *last = NULL, *to = NULL;
	struct build_copy copy = {0};
	auto_box_ref ref = {0};
	struct files files;
	size_t found_count = 0;
	uint64_t count = 0;

	for (size_t i = 0; i + 1 < step->count; i++) {
		char *word = NULL;

		TRY(build_state_expand(state, &build->plan, step->words[i], &word));
		sources_add_word(&sources, word);
	}
	TRY(build_state_expand(state, &build->plan, step->words[step->count - 1], &last));
	if (step->chown)
		TRY(build_state_expand(state, &build->plan, step->chown, &chown));
	if (step->chmod)
		TRY(build_state_expand(state, &build->plan, step->chmod, &chmod));
	TRY(build_state_path(state, last, &to));
	if (step->from)
		TRY(sources_add_box(build, at, step->from, &sources));
	else if (step->count > 1)
		TRY(sources_add_context(build, &sources));
	TRY(sources_add_files(build, at, step, &sources));
	copy = (struct build_copy){
		.archives = sources.at,
		.archive_count = sources.count,
		.sources = sources.words,
		.count = sources.word_count,
		.to = to,
		.chown = chown,
		.chmod = chmod,
		.found = step->kind == BUILD_ADD ? found : NULL,
		.found_count = &found_count,
	};
	TRY(build_ref(build, at, &ref));
	files = build_files_of(build, &ref, FILES_MS);
	TRY(build_copy(&files, &copy, &count));
	TRY(copy_unpack_found(build, &files, &copy, found_count, &count));
	build_say(build, "%llu entries\n", (unsigned long long)count);
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

static fallible step_run(struct build *build, size_t at, const struct build_step *step)
{
	on_exit_call(texts_done) char **texts = NULL;

	for (size_t i = 0; step->mounts && step->mounts[i]; i++) {
		texts = mem_grow(texts, i + 2, sizeof(char *));
		texts[i] = texts[i + 1] = NULL;
		TRY(build_state_expand(&build->boxes[at].state, &build->plan, step->mounts[i],
				       &texts[i]));
	}
	return texts ? run_mounted(build, at, step, texts)
		     : run_command(build, at, step, &(struct env_map){0});
}

static fallible step_workdir(struct build *build, size_t at)
{
	auto_box_ref ref = {0};
	struct files files;

	TRY(build_ref(build, at, &ref));
	files = build_files_of(build, &ref, FILES_QUICK_MS);
	return files_mkdir(&files, build->boxes[at].state.workdir, true, 0755);
}

static fallible step_do(struct build *build, size_t at, const struct build_step *step)
{
	if (step->kind == BUILD_RUN)
		return step_run(build, at, step);
	if (step->kind == BUILD_COPY || step->kind == BUILD_ADD)
		return step_copy(build, at, step);
	TRY(build_state_apply(&build->boxes[at].state, &build->plan, step));
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
		if (err && build->keep_failed && err_kind(err) != ERR_CANCELLED) {
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
	closer_drop(&build->context);
	closer_drop(&build->log);
	build_plan_done(&build->plan);
	json_free(build->limits);
	json_free(build->network);
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
		.who = *who,
		.pull = ask->pull,
		.keep_failed = ask->keep_failed,
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
		const char *label = env_map_get(&entry->record.labels, STR(BUILD_LABEL));

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

void builds_resume(struct manager *manager)
{
	struct operation *operation;
	auto_err unknown = pulled_ready(manager);

	if (!manager->pull || unknown)
		return;
	for (size_t at = 0; operations_next(manager, &at, &operation);) {
		struct leftover *left;

		if (operation->kind != OPERATION_BUILD || operation->state != OPERATION_QUEUED ||
		    operation->task)
			continue;
		operation->manager = manager;
		left = mem_new_of(struct leftover);
		*left = (struct leftover){manager, operation};
		operation->task = task_start(manager->loop, "unbuild", build_interrupted, left);
	}
}
