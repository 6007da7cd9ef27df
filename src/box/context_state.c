// The state file of a context, "BOX/kN": the fields of struct context_spec, its id and its key. It
// is on disk before the client that creates the context is answered. A file with another magic or
// version is ignored.
#include <stdlib.h>

#include "base/mem.h"
#include "box/box_file.h"
#include "box/context_private.h"
#include "codec/pack.h"

#define MAGIC "COVECELL"
#define VERSION 1
#define TEXT_MAX (8u << 20)
#define ENV_MAX 8192
#define TEXT_EXTRA 8
#define FIXED 256

static char *context_state_encode(const struct context *context, size_t *out_len)
{
	size_t size = FIXED + strlen(context->start_cwd);
	struct pack pack;
	uint32_t count = 0;
	char *bytes;

	for (; context->env[count]; count++)
		size += strlen(context->env[count]) + TEXT_EXTRA;
	bytes = mem_new(size);
	pack_init(&pack, bytes, size);
	pack_text(&pack, STR(MAGIC));
	pack_u32(&pack, VERSION);
	pack_text(&pack, str_of(context->id));
	pack_text(&pack, str_of(context->key));
	pack_u8(&pack, (uint8_t)context->language);
	pack_u8(&pack, context->is_default);
	pack_text(&pack, str_of(context->start_cwd));
	pack_u64(&pack, context->timeout_ms);
	pack_u64(&pack, context->output_cap);
	pack_u32(&pack, context->cpu_milli);
	pack_u32(&pack, count);
	for (uint32_t i = 0; i < count; i++)
		pack_text(&pack, str_of(context->env[i]));
	*out_len = pack.failed ? 0 : pack.len;
	return bytes;
}

void context_state_write(struct context *context)
{
	auto_free char *bytes = NULL;
	size_t len;

	if (!context->state_file || !context->listed)
		return;
	bytes = context_state_encode(context, &len);
	task_shield(true);
	box_file_write(context->box, CONTEXT_STATE_FILE, context->state_file, bytes, len);
	if (!context->listed && !context->left) // deleted during the write
		context_state_erase(context);
	task_shield(false);
}

void context_state_erase(struct context *context)
{
	if (context->state_file)
		box_file_remove(context->box, CONTEXT_STATE_FILE, context->state_file);
}

static const char **context_state_read_env(struct unpack *in)
{
	uint32_t count = unpack_u32(in);
	const char **env;

	if (in->failed || count > ENV_MAX)
		return NULL;
	env = mem_new((count + 1) * sizeof(*env));
	for (uint32_t i = 0; i < count; i++)
		env[i] = unpack_text(in, TEXT_MAX).at;
	return env;
}

fallible context_state_read(struct box *box, uint32_t number, struct context **out)
{
	size_t len = 0;
	auto_free char *bytes = NULL;
	auto_free const char **env = NULL;
	struct context_spec spec = {0};
	struct str id, key;
	struct unpack in;
	uint8_t language;

	*out = NULL;
	TRY(box_file_read(box, CONTEXT_STATE_FILE, number, &bytes, &len));
	unpack_init(&in, bytes, len);
	if (!len || !str_is(unpack_text(&in, sizeof(MAGIC)), MAGIC) || unpack_u32(&in) != VERSION)
		return OK;
	id = unpack_text(&in, CONTEXT_ID);
	key = unpack_text(&in, CELL_KEY);
	language = unpack_u8(&in);
	spec.is_default = unpack_u8(&in);
	spec.cwd = unpack_text(&in, TEXT_MAX).at;
	spec.timeout_ms = unpack_u64(&in);
	spec.output_cap = unpack_u64(&in);
	spec.cpu_milli = unpack_u32(&in);
	env = context_state_read_env(&in);
	if (!env || !unpack_end(&in) || id.len != CONTEXT_ID || key.len != CELL_KEY ||
	    language > CONTEXT_TYPESCRIPT)
		return OK;
	spec.language = (enum context_language)language;
	spec.env = env;
	*out = context_make(box, &spec, id.at, key.at);
	return OK;
}
