// The configuration that a build makes: read from that of its base, changed by the steps, written
// for the template. Lists of commands are kept as JSON.
#include "types/build_state.h"

#include <string.h>

#include "base/mem.h"
#include "types/launch.h"

#define LIST_MAX (128 * 1024)
#define NAMES_MAX 256 // of labels, ports, volumes, arguments
#define PATH_MAX_BYTES 4096

static void state_free_shell(struct build_state *state)
{
	mem_free_list(state->shell);
	state->shell = NULL;
}

void build_state_done(struct build_state *state)
{
	env_map_done(&state->env);
	env_map_done(&state->args);
	env_map_done(&state->labels);
	env_map_done(&state->ports);
	env_map_done(&state->volumes);
	free(state->user);
	free(state->workdir);
	free(state->stop_signal);
	free(state->entrypoint);
	free(state->cmd);
	free(state->healthcheck);
	free(state->launch);
	state_free_shell(state);
	*state = (struct build_state){0};
}

static char *state_dup(const char *text)
{
	return text ? mem_str(text) : NULL;
}

static void state_set(char **at, const char *text)
{
	free(*at);
	*at = state_dup(text);
}

// Arguments belong to their stage.
void build_state_copy(const struct build_state *from, struct build_state *out)
{
	*out = (struct build_state){
		.user = state_dup(from->user),
		.workdir = state_dup(from->workdir),
		.stop_signal = state_dup(from->stop_signal),
		.entrypoint = state_dup(from->entrypoint),
		.cmd = state_dup(from->cmd),
		.healthcheck = state_dup(from->healthcheck),
		.launch = state_dup(from->launch),
	};
	env_map_add(&out->env, &from->env);
	env_map_add(&out->labels, &from->labels);
	env_map_add(&out->ports, &from->ports);
	env_map_add(&out->volumes, &from->volumes);
}

// ------------------------------------------------------------------------------------------- JSON

static fallible state_bad(const char *what)
{
	return err_new(INVALID, "bad_image", "the base's %s is not as it should be", what);
}

static fallible read_list_of(const struct json *config, const char *key, char **out)
{
	const struct json *list = json_get(config, key);
	auto_buf text = BUF_INIT(LIST_MAX);
	struct json_out json = json_to(&text);

	if (!list)
		return OK;
	if (json_type(list) != JSON_ARRAY)
		return state_bad(key);
	for (size_t i = 0; i < json_count(list); i++)
		if (json_type(json_at(list, i)) != JSON_STRING)
			return state_bad(key);
	json_add_value(&json, list);
	if (!buf_ok(&text))
		return state_bad(key);
	*out = buf_take(&text);
	return OK;
}

static fallible read_object_of(const struct json *config, const char *key, char **out)
{
	const struct json *object = json_get(config, key);
	auto_buf text = BUF_INIT(LIST_MAX);
	struct json_out json = json_to(&text);

	if (!object || json_type(object) == JSON_NULL)
		return OK;
	if (json_type(object) != JSON_OBJECT)
		return state_bad(key);
	json_add_value(&json, object);
	if (!buf_ok(&text))
		return state_bad(key);
	*out = buf_take(&text);
	return OK;
}

// Members of an object; of those with values other than texts the names alone count.
static fallible read_names(const struct json *config, const char *key, struct env_map *out)
{
	const struct json *object = json_get(config, key);
	struct json *value;
	struct str name;

	if (!object)
		return OK;
	if (json_type(object) != JSON_OBJECT || json_count(object) > NAMES_MAX)
		return state_bad(key);
	for (size_t at = 0; json_next(object, &at, &name, &value);) {
		struct str text = value ? json_chars(value) : STR("");

		if (text.at && memchr(text.at, 0, text.len))
			return state_bad(key);
		env_map_set(out, name, text.at ? text : STR(""));
	}
	return OK;
}

fallible build_state_read(struct str config, struct build_state *out)
{
	struct str signal = {0};
	auto_json json = NULL;
	auto_image image = {0};

	if (!config.len)
		return OK;
	TRY(image_read(config, &image));
	TRY(json_read(config, &json));
	env_map_add(&out->env, &image.env);
	if (image.user[0])
		state_set(&out->user, image.user);
	if (image.workdir[0])
		state_set(&out->workdir, image.workdir);
	if (image.launch)
		state_set(&out->launch, image.launch);
	TRY(read_list_of(json, "Entrypoint", &out->entrypoint));
	TRY(read_list_of(json, "Cmd", &out->cmd));
	TRY(read_object_of(json, "Healthcheck", &out->healthcheck));
	TRY(read_names(json, "Labels", &out->labels));
	TRY(read_names(json, "ExposedPorts", &out->ports));
	TRY(read_names(json, "Volumes", &out->volumes));
	TRY(json_str(json_get(json, "StopSignal"), "StopSignal", &signal));
	if (signal.len)
		out->stop_signal = mem_dup(signal.at, signal.len);
	return OK;
}

static void write_names(struct json_out *out, const char *key, const struct env_map *names)
{
	if (!names->count)
		return;
	json_put_begin(out, key, '{');
	for (size_t i = 0; i < names->count; i++) {
		json_put_begin(out, names->at[i].name, '{');
		json_end(out, '}');
	}
	json_end(out, '}');
}

static void write_raw(struct json_out *out, const char *key, const char *json)
{
	if (!json)
		return;
	json_key(out, key);
	json_add_raw(out, str_of(json));
}

fallible build_state_write(const struct build_state *state, struct buf *out)
{
	struct json_out json = json_to(out);
	auto_image image = {0};

	json_begin(&json, '{');
	json_put_begin(&json, "Env", '[');
	for (size_t i = 0; i < state->env.count; i++) {
		auto_free char *pair = mem_fmt("%s=%s", state->env.at[i].name,
					       state->env.at[i].value);

		json_add_text(&json, pair);
	}
	json_end(&json, ']');
	if (state->user)
		json_put_text(&json, "User", state->user);
	if (state->workdir)
		json_put_text(&json, "WorkingDir", state->workdir);
	write_raw(&json, "Entrypoint", state->entrypoint);
	write_raw(&json, "Cmd", state->cmd);
	if (state->labels.count) {
		json_key(&json, "Labels");
		env_map_write(&json, &state->labels);
	}
	write_names(&json, "ExposedPorts", &state->ports);
	write_names(&json, "Volumes", &state->volumes);
	if (state->stop_signal)
		json_put_text(&json, "StopSignal", state->stop_signal);
	write_raw(&json, "Healthcheck", state->healthcheck);
	launch_put(&json, state->launch);
	json_end(&json, '}');
	if (!buf_ok(out))
		return err_new(INVALID, "bad_image", "the configuration of the image is too large");
	return image_read(buf_view(out), &image);
}

// ------------------------------------------------------------------------------------------ words

static const char *state_value(void *arg, struct str name)
{
	const struct build_state *state = arg;
	const char *value = env_map_get(&state->env, name);

	return value ? value : env_map_get(&state->args, name);
}

fallible build_state_expand(const struct build_state *state, const struct build_plan *plan,
			    const char *word, char **out)
{
	auto_buf text = BUF_INIT(BUILD_WORD_MAX);

	TRY(build_expand(str_of(word), plan->escape, state_value, (void *)state, &text));
	if (!buf_ok(&text))
		return err_new(INVALID, "bad_plan",
			       "a word is too long once its variables are "
			       "replaced");
	buf_text(&text, "");
	*out = buf_take(&text);
	return OK;
}

fallible build_state_expand_file(const struct build_state *state, const struct build_plan *plan,
				 const struct build_file *file, char **out)
{
	auto_buf text = BUF_INIT(BUILD_WORD_MAX);

	if (file->literal) {
		*out = mem_str(file->content);
		return OK;
	}
	TRY(build_expand_text(str_of(file->content), plan->escape, state_value, (void *)state,
			      &text));
	if (!buf_ok(&text))
		return err_new(INVALID, "bad_plan",
			       "a file is too long once its variables are "
			       "replaced");
	buf_text(&text, "");
	*out = buf_take(&text);
	return OK;
}

fallible build_state_path(const struct build_state *state, const char *path, char **out)
{
	const char *base = state->workdir ? state->workdir : "/";

	if (strlen(path) + strlen(base) + 2 > PATH_MAX_BYTES)
		return err_new(INVALID, "bad_plan", "a path is too long");
	*out = path[0] == '/'
		       ? mem_str(path)
		       : mem_fmt("%s%s%s", base, str_ends(str_of(base), "/") ? "" : "/", path);
	return OK;
}

// ------------------------------------------------------------------------------------------ steps

static fallible apply_arg(struct build_state *state, const struct build_plan *plan,
			  const struct build_step *step)
{
	struct str name = str_of(step->words[0]);
	const char *given = env_map_get(&plan->args, name);
	auto_free char *value = NULL;

	if (state->args.count >= NAMES_MAX)
		return err_new(INVALID, "bad_plan", "there are too many arguments");
	if (!given && step->count > 1)
		TRY(build_state_expand(state, plan, step->words[1], &value));
	if (!given && !value)
		given = env_map_get(&plan->globals, name);
	if (given || value)
		env_map_set(&state->args, name, str_of(given ? given : value));
	return OK;
}

static fallible apply_pairs(struct build_state *state, const struct build_plan *plan,
			    const struct build_step *step, struct env_map *to)
{
	auto_pairs pairs = {0};

	// All values of a line are expanded with what was set before it.
	for (size_t i = 0; i + 1 < step->count; i += 2) {
		auto_free char *name = NULL, *value = NULL;

		TRY(build_state_expand(state, plan, step->words[i], &name));
		TRY(build_state_expand(state, plan, step->words[i + 1], &value));
		if (!name || !name[0] || strchr(name, '='))
			return err_new(INVALID, "bad_plan", "a name is empty or has a '='");
		env_map_set(&pairs, str_of(name), str_of(value));
	}
	if (to->count + pairs.count > ENV_MAP_ENV_MAX)
		return err_new(INVALID, "bad_plan", "there are more than %d names",
			       ENV_MAP_ENV_MAX);
	env_map_add(to, &pairs);
	return OK;
}

static fallible apply_names(struct build_state *state, const struct build_plan *plan,
			    const struct build_step *step, struct env_map *to)
{
	for (size_t i = 0; i < step->count; i++) {
		auto_free char *name = NULL, *full = NULL;

		TRY(build_state_expand(state, plan, step->words[i], &name));
		if (to->count >= NAMES_MAX || !name || !name[0])
			return err_new(INVALID, "bad_plan",
				       "there are too many names, or an empty one");
		if (step->kind == BUILD_EXPOSE && !strchr(name, '/'))
			full = mem_fmt("%s/tcp", name);
		env_map_set(to, str_of(full ? full : name), STR(""));
	}
	return OK;
}

static fallible apply_command(struct build_state *state, const struct build_step *step, char **to)
{
	auto_buf text = BUF_INIT(LIST_MAX);
	struct json_out json = json_to(&text);

	json_begin(&json, '[');
	if (!step->is_list) {
		for (char **word = state->shell; word && *word; word++)
			json_add_text(&json, *word);
		if (!state->shell) {
			json_add_text(&json, "/bin/sh");
			json_add_text(&json, "-c");
		}
	}
	for (size_t i = 0; i < step->count; i++)
		json_add_text(&json, step->words[i]);
	json_end(&json, ']');
	if (!buf_ok(&text))
		return err_new(INVALID, "bad_plan", "a command is too long");
	free(*to);
	*to = buf_take(&text);
	return OK;
}

static fallible apply_workdir(struct build_state *state, const struct build_plan *plan,
			      const struct build_step *step)
{
	auto_free char *word = NULL, *path = NULL;

	TRY(build_state_expand(state, plan, step->words[0], &word));
	TRY(build_state_path(state, word ? word : "", &path));
	if (!image_is_workdir(str_of(path)))
		return err_new(INVALID, "bad_plan", "'%.80s' is no directory for an image", path);
	state_set(&state->workdir, path);
	return OK;
}

static fallible apply_user(struct build_state *state, const struct build_plan *plan,
			   const struct build_step *step)
{
	auto_free char *word = NULL;

	TRY(build_state_expand(state, plan, step->words[0], &word));
	if (!word || !word[0] || !image_is_user(str_of(word)))
		return err_new(INVALID, "bad_plan", "'%.80s' is no user", word);
	state_set(&state->user, word);
	return OK;
}

static fallible apply_signal(struct build_state *state, const struct build_plan *plan,
			     const struct build_step *step)
{
	auto_free char *word = NULL;

	TRY(build_state_expand(state, plan, step->words[0], &word));
	state_set(&state->stop_signal, word);
	return OK;
}

static void apply_shell(struct build_state *state, const struct build_step *step)
{
	state_free_shell(state);
	state->shell = mem_new((step->count + 1) * sizeof(char *));
	for (size_t i = 0; i < step->count; i++)
		state->shell[i] = mem_str(step->words[i]);
}

fallible build_state_apply(struct build_state *state, const struct build_plan *plan,
			   const struct build_step *step)
{
	switch (step->kind) {
	case BUILD_ENV:
		return apply_pairs(state, plan, step, &state->env);
	case BUILD_LABEL:
		return apply_pairs(state, plan, step, &state->labels);
	case BUILD_ARG:
		return apply_arg(state, plan, step);
	case BUILD_EXPOSE:
		return apply_names(state, plan, step, &state->ports);
	case BUILD_VOLUME:
		return apply_names(state, plan, step, &state->volumes);
	case BUILD_WORKDIR:
		return apply_workdir(state, plan, step);
	case BUILD_USER:
		return apply_user(state, plan, step);
	case BUILD_ENTRYPOINT: // a new one makes the base's arguments void
		if (!state->has_own_cmd)
			state_set(&state->cmd, NULL);
		return apply_command(state, step, &state->entrypoint);
	case BUILD_CMD:
		state->has_own_cmd = true;
		return apply_command(state, step, &state->cmd);
	case BUILD_SHELL:
		apply_shell(state, step);
		return OK;
	case BUILD_HEALTHCHECK:
		state_set(&state->healthcheck, step->words[0]);
		return OK;
	case BUILD_STOPSIGNAL:
		return apply_signal(state, plan, step);
	default:
		return err_new(INTERNAL, "internal", "a step of another kind");
	}
}
