// Pulls an image: begins the operation and follows its events. A credential is in the request
// alone: the body is wiped afterwards.
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/secret.h"
#include "lib/fields.h"
#include "lib/http_call.h"
#include "lib/operation.h"
#include "lib/private.h"

#define IMAGE_BODY_MAX (256 * 1024)

static void image_put(struct json_out *out, const struct cove_pull_options *options)
{
	json_begin(out, '{');
	json_put_text(out, "image", options->image);
	if (options->name)
		json_put_text(out, "name", options->name);
	if (options->platform)
		json_put_text(out, "platform", options->platform);
	if (options->cache)
		json_put_bool(out, "cache", true);
	if (options->username || options->identity_token) {
		json_put_begin(out, "auth", '{');
		if (options->identity_token)
			json_put_text(out, "identityToken", options->identity_token);
		else
			json_put_text(out, "username", options->username);
		if (options->password && !options->identity_token)
			json_put_text(out, "password", options->password);
		json_end(out, '}');
	}
	json_end(out, '}');
}

static fallible pull_request_begin(struct cove *cove, const struct cove_pull_options *options,
				   char **out)
{
	auto_secret_buf body = BUF_INIT(IMAGE_BODY_MAX);
	struct json_out json = json_to(&body);
	auto_json reply = NULL;

	if (!options->image)
		return err_new(INVALID, "bad_reference", "there is no image to pull");
	image_put(&json, options);
	TRY(http_call_json(cove, "POST", "/v1/templates?wait=false", &body, &reply));
	*out = mem_str(fields_text(reply, "id"));
	return OK;
}

static uint64_t image_number(const struct json *object, const char *key)
{
	int64_t number = fields_number(object, key, 0);

	return number > 0 ? (uint64_t)number : 0;
}

// Nonzero: the caller wants no more.
static int image_show(const struct json *event, cove_pull_fn *each, void *arg)
{
	const struct json *list = json_get(event, "layers");
	size_t count = list && json_type(list) == JSON_ARRAY ? json_count(list) : 0;
	auto_free struct cove_pull_layer *layers = mem_new((count + 1) * sizeof(*layers));
	struct cove_pull_progress progress = {
		.phase = fields_text(event, "phase"),
		.bytes = image_number(event, "bytes"),
		.total = image_number(event, "total"),
		.layers = layers,
		.layer_count = count,
	};

	for (size_t i = 0; i < count; i++) {
		const struct json *layer = json_at(list, i);

		layers[i] = (struct cove_pull_layer){
			.digest = fields_text(layer, "digest"),
			.state = fields_text(layer, "state"),
			.bytes = image_number(layer, "bytes"),
			.total = image_number(layer, "total"),
		};
	}
	return each(arg, &progress);
}

struct image_each {
	cove_pull_fn *each;
	void *arg;
};

static fallible image_event(void *arg, const struct json *event)
{
	const struct image_each *to = arg;

	if (to->each && image_show(event, to->each, to->arg))
		return err_new(CANCELLED, "cancelled", "the pull was cancelled");
	return OK;
}

static fallible image_pull(struct cove *cove, const struct cove_pull_options *options,
			   cove_pull_fn *each, void *arg, char **out_json)
{
	struct image_each to = {each, arg};
	auto_free char *id = NULL;

	TRY(pull_request_begin(cove, options, &id));
	return operation_finish(cove, id, image_event, &to, out_json);
}

enum cove_kind cove_image_pull(struct cove *cove, const struct cove_pull_options *options,
			       cove_pull_fn *each, void *arg, char **out_json,
			       struct cove_error *error)
{
	return private_call(cove, image_pull(cove, options, each, arg, out_json), error);
}
