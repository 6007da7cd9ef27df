// The choices of an agent session: members of its create, as JSON text. The sandbox's members are
// read by types/spec whenever a sandbox is made, files when a workspace is made; here they are
// checked, kept, compared and shown.
//
// A session's row is stored and shown: values of secrets are refused in it. Sessions name secrets
// of their tenant.
#include "agent/choices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/mem.h"
#include "codec/text.h"

#define PATH_MAX_BYTES 4000 // with the workspace before it
#define MODE_DEFAULT 0644

const char *const choice_keys[CHOICE_COUNT + 1] = {
#define X(name, key, shared) [CHOICE_##name] = key,
	CHOICE_ROWS(X)
#undef X
};
static const bool choice_is_shared[CHOICE_COUNT] = {
#define X(name, key, shared) [CHOICE_##name] = shared,
	CHOICE_ROWS(X)
#undef X
};

void choices_done(struct choices *choices)
{
	for (int i = 0; i < CHOICE_COUNT; i++)
		free(choices->text[i]);
	*choices = (struct choices){0};
}

void choices_copy(const struct choices *from, struct choices *out)
{
	for (int i = 0; i < CHOICE_COUNT; i++)
		out->text[i] = from->text[i] ? mem_str(from->text[i]) : NULL;
}

size_t choices_bytes(const struct choices *choices)
{
	size_t bytes = 0;

	for (int i = 0; i < CHOICE_COUNT; i++)
		if (choices->text[i] && i != CHOICE_TEMPLATE && i != CHOICE_PROFILE)
			bytes += strlen(choices->text[i]);
	return bytes;
}

// -------------------------------------------------------------------------------- read

static fallible choices_bad_path(struct str path)
{
	return err_hint(
		err_new(INVALID, "bad_path", "'files' has the path '" STR_FMT "'", STR_ARG(path)),
		"a path in the workspace, or an absolute one, without '..' and of up to %d "
		"bytes",
		PATH_MAX_BYTES);
}

static fallible choices_check_path(struct str path)
{
	struct str rest = path, part;

	if (!path.len || path.len > PATH_MAX_BYTES || path.at[path.len - 1] == '/')
		return choices_bad_path(path);
	while (str_cut(&rest, '/', &part))
		if (str_is(part, "..") || str_is(part, "."))
			return choices_bad_path(path);
	return OK;
}

// `mode` is a text as 0644 is.
static fallible choices_read_mode(const struct json *value, uint32_t *out)
{
	struct str text = STR("0644");
	uint32_t mode = 0;
	bool good;

	TRY(json_str(value, "files.mode", &text));
	good = text.len > 0 && text.len <= 5;
	for (size_t i = 0; good && i < text.len; i++) {
		good = text.at[i] >= '0' && text.at[i] <= '7';
		mode = mode * 8 + (uint32_t)(text.at[i] - '0');
	}
	if (!good || mode > 07777)
		return err_new(INVALID, "bad_field", "'files.mode' is not a mode, as 0644 is");
	*out = mode;
	return OK;
}

static fallible choices_read_file(const struct json *object, struct buf *room,
				  struct choice_file *out)
{
	static const char *const known[] = {"path", "content", "contentBase64", "mode", NULL};
	const struct json *plain, *coded;

	TRY(json_want(object, "files", JSON_OBJECT));
	TRY(json_only(object, known));
	plain = json_get(object, "content");
	coded = json_get(object, "contentBase64");
	*out = (struct choice_file){.path = STR(""), .mode = MODE_DEFAULT};
	TRY(json_str(json_get(object, "path"), "files.path", &out->path));
	TRY(choices_check_path(out->path));
	TRY(choices_read_mode(json_get(object, "mode"), &out->mode));
	if (!plain == !coded)
		return err_new(INVALID, "bad_field",
			       "a file must have either 'content' or 'contentBase64'");
	TRY(json_want(plain ? plain : coded, "files.content", JSON_STRING));
	buf_clear(room);
	if (plain)
		buf_str(room, json_chars(plain));
	else if (!text_unbase64(room, json_chars(coded)) && buf_ok(room))
		return err_new(INVALID, "bad_field", "'files.contentBase64' is not base64");
	if (!buf_ok(room))
		return err_hint(err_new(TOO_LARGE, "file_too_large",
					"a file of an agent session may have %d KiB",
					CHOICES_FILE_MAX / 1024),
				"put larger files into a template");
	out->bytes = buf_view(room);
	return OK;
}

static fallible choices_read_files(const struct json *files, choices_file_fn *each, void *arg)
{
	auto_buf room = BUF_INIT(CHOICES_FILE_MAX);

	if (!files)
		return OK;
	TRY(json_want(files, "files", JSON_ARRAY));
	if (json_count(files) > CHOICES_FILES_MAX)
		return err_new(INVALID, "bad_field", "'files' has more than %d", CHOICES_FILES_MAX);
	for (size_t i = 0; i < json_count(files); i++) {
		struct choice_file file;

		TRY(choices_read_file(json_at(files, i), &room, &file));
		if (each)
			TRY(each(arg, &file));
	}
	return OK;
}

static fallible choices_check_secrets(const struct json *network)
{
	const struct json *secrets = network ? json_get(network, "secrets") : NULL;

	if (!secrets)
		return OK;
	TRY(json_want(secrets, "network.secrets", JSON_ARRAY));
	for (size_t i = 0; i < json_count(secrets); i++)
		if (json_type(json_at(secrets, i)) != JSON_STRING)
			return err_hint(err_new(INVALID, "bad_field",
						"an agent session names secrets of the tenant"),
					"'cove secret set NAME --for HOST' makes one; then "
					"\"secrets\": [\"NAME\"]");
	return OK;
}

void choices_load(const struct json *object, struct choices *out)
{
	for (int i = 0; i < CHOICE_COUNT; i++) {
		const struct json *value = json_get(object, choice_keys[i]);
		auto_buf text = BUF_INIT(2 * CHOICES_BYTES_MAX);
		struct json_out put = json_to(&text);

		if (!value)
			continue;
		json_add_value(&put, value);
		if (buf_ok(&text))
			out->text[i] = mem_dup(text.at, text.len);
	}
}

fallible choices_read(const struct json *object, struct choices *out)
{
	const struct json *network = json_get(object, "network");

	if (network)
		TRY(json_want(network, "network", JSON_OBJECT));
	TRY(choices_check_secrets(network));
	TRY(choices_read_files(json_get(object, "files"), NULL, NULL));
	if (json_get(object, "profile"))
		TRY(json_want(json_get(object, "profile"), "profile", JSON_STRING));
	choices_load(object, out);
	free(take_ptr(out->text[CHOICE_LIMITS])); // they come from a profile alone
	if (choices_bytes(out) > CHOICES_BYTES_MAX)
		return err_hint(err_new(TOO_LARGE, "too_large",
					"files and policy of an agent session may have %d KiB",
					CHOICES_BYTES_MAX / 1024),
				"put larger files into a template");
	return OK;
}

// --------------------------------------------------------------------------------- use

void choices_offer(struct choices *choices, enum choice choice, struct str json)
{
	if (!choices->text[choice])
		choices->text[choice] = mem_dup(json.at, json.len);
}

void choices_set_template(struct choices *choices, const char *name)
{
	free(choices->text[CHOICE_TEMPLATE]);
	choices->text[CHOICE_TEMPLATE] = mem_fmt("\"%s\"", name); // a name has no quote
}

void choices_set_image(struct choices *choices, const char *reference)
{
	free(choices->text[CHOICE_IMAGE]);
	choices->text[CHOICE_IMAGE] = mem_fmt("\"%s\"", reference); // nor has a reference
}

static struct err *choices_put_file(void *arg, const struct choice_file *file)
{
	struct json_out *out = arg;
	char mode[8];

	snprintf(mode, sizeof(mode), "%04o", file->mode);
	json_begin(out, '{');
	json_put_str(out, "path", file->path);
	json_put_int(out, "size", (int64_t)file->bytes.len);
	json_put_text(out, "mode", mode);
	json_end(out, '}');
	return OK;
}

fallible choices_each_file(const struct choices *choices, choices_file_fn *each, void *arg)
{
	auto_json files = NULL;

	if (!choices->text[CHOICE_FILES])
		return OK;
	TRY(json_read(str_of(choices->text[CHOICE_FILES]), &files));
	return choices_read_files(files, each, arg);
}

void choices_put(struct json_out *out, const struct choices *choices, bool shown)
{
	for (int i = 0; i < CHOICE_COUNT; i++) {
		if (!choices->text[i])
			continue;
		json_key(out, choice_keys[i]);
		if (!shown || i != CHOICE_FILES) {
			json_add_raw(out, str_of(choices->text[i]));
			continue;
		}
		json_begin(out, '[');
		err_free(choices_each_file(choices, choices_put_file, out));
		json_end(out, ']');
	}
}

fallible choices_differ(const char *key)
{
	return err_hint(err_new(CONFLICT, "sandbox_differs",
				"the sandbox of this owner has another '%s'", key),
			"leave '%s' out to share the sandbox, or send \"isolation\": \"session\" "
			"for one of its own",
			key);
}

fallible choices_join(const struct choices *asked, const struct choices *had, struct choices *out)
{
	for (int i = 0; i < CHOICE_COUNT; i++)
		if (choice_is_shared[i] && asked->text[i] &&
		    (!had->text[i] || strcmp(asked->text[i], had->text[i]) != 0))
			return choices_differ(choice_keys[i]);
	for (int i = 0; i < CHOICE_COUNT; i++) {
		const char *text = choice_is_shared[i] ? had->text[i] : asked->text[i];

		out->text[i] = text ? mem_str(text) : NULL;
	}
	return OK;
}

bool choices_agree(const struct choices *one, const struct choices *other)
{
	for (int i = 0; i < CHOICE_COUNT; i++) {
		const char *a = one->text[i], *b = other->text[i];

		if (choice_is_shared[i] && a != b && (!a || !b || strcmp(a, b) != 0))
			return false;
	}
	return true;
}

fallible choices_spec(const struct choices *choices, const struct spec_bounds *bounds,
		      struct spec *out)
{
	static const enum choice of_spec[] = {CHOICE_TEMPLATE, CHOICE_IMAGE,  CHOICE_NETWORK,
					      CHOICE_SECRETS,  CHOICE_LIMITS, CHOICE_VOLUMES};
	auto_buf text = BUF_INIT(2 * CHOICES_BYTES_MAX);
	struct json_out put = json_to(&text);
	auto_json object = NULL;

	json_begin(&put, '{');
	for (size_t i = 0; i < sizeof(of_spec) / sizeof(*of_spec); i++) {
		if (!choices->text[of_spec[i]])
			continue;
		json_key(&put, choice_keys[of_spec[i]]);
		json_add_raw(&put, str_of(choices->text[of_spec[i]]));
	}
	json_end(&put, '}');
	TRY(json_read(buf_view(&text), &object));
	return spec_read(object, bounds, out);
}
