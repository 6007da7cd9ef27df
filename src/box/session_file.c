// The state file of a session, "BOX/sN": a magic, a version, the fields of struct session_spec, and
// changes of the environment that no command has brought to the shell yet. The next daemon reads
// it; a file of an unknown version is ignored.
#include <stdlib.h>

#include "base/mem.h"
#include "box/box_file.h"
#include "box/session_private.h"
#include "codec/pack.h"

#define MAGIC "COVECARD"
#define VERSION 2 // version 1 has no `own` count
#define STATE_FILE_MAX (8u << 20)
#define ENV_MAX 8192
#define TEXT_EXTRA 8

static size_t room_for(const struct session *session)
{
	size_t size = 128 + strlen(session->id) + strlen(session->start_cwd) + session->changes.len;

	for (char **at = session->env; *at; at++)
		size += strlen(*at) + TEXT_EXTRA;
	return size;
}

static char *state_file_encode(const struct session *session, size_t *out_len)
{
	size_t size = room_for(session);
	char *bytes = mem_new(size);
	uint32_t count = 0;
	struct pack pack;

	while (session->env[count])
		count++;
	pack_init(&pack, bytes, size);
	pack_text(&pack, STR(MAGIC));
	pack_u32(&pack, VERSION);
	pack_text(&pack, str_of(session->id));
	pack_text(&pack, str_of(session->start_cwd));
	pack_u64(&pack, session->timeout_ms);
	pack_u64(&pack, session->output_cap);
	pack_u32(&pack, session->cpu_milli);
	pack_text(&pack, buf_view(&session->changes));
	pack_u32(&pack, session->own);
	pack_u32(&pack, count);
	for (uint32_t i = 0; i < count; i++)
		pack_text(&pack, str_of(session->env[i]));
	*out_len = pack.failed ? 0 : pack.len;
	return bytes;
}

void state_file_erase(struct session *session)
{
	if (session->state_file && !session->listed)
		box_file_remove(session->box, 's', session->state_file);
}

// Removes a file of a session that was deleted during the write.
static void state_file_remove_stale(struct session *session)
{
	if (!session->listed)
		state_file_remove(session);
}

void state_file_write(struct session *session)
{
	auto_free char *bytes = NULL;
	size_t len;

	if (!session->state_file || !session->listed)
		return;
	bytes = state_file_encode(session, &len);
	box_file_write(session->box, 's', session->state_file, bytes, len);
	state_file_remove_stale(session);
}

static void touch_task(void *arg)
{
	struct session *session = arg;

	task_shield(true);
	while (session->state_file_stale) {
		session->state_file_stale = false;
		state_file_write(session);
	}
	session->state_file_busy = false;
	state_file_remove_stale(session);
	condition_signal(&session->changed);
	session_unref(session);
}

void state_file_touch(struct session *session)
{
	if (!session->state_file)
		return;
	session->state_file_stale = true;
	if (session->state_file_busy)
		return;
	session->state_file_busy = true;
	session_ref(session);
	task_start(session->box->loop, "session.state_file", touch_task, session);
}

static bool state_file_decode(struct state_file *state_file, size_t len)
{
	struct unpack in;
	uint32_t count, version;
	bool known;

	unpack_init(&in, state_file->bytes, len);
	known = str_is(unpack_text(&in, sizeof(MAGIC)), MAGIC);
	version = unpack_u32(&in);
	known &= version == 1 || version == VERSION;
	state_file->id = unpack_text(&in, SESSION_ID_MAX);
	state_file->spec.cwd = unpack_text(&in, STATE_FILE_MAX).at;
	state_file->spec.timeout_ms = unpack_u64(&in);
	state_file->spec.output_cap = unpack_u64(&in);
	state_file->spec.cpu_milli = unpack_u32(&in);
	state_file->changes = unpack_text(&in, STATE_FILE_MAX);
	state_file->spec.own = version == 1 ? 0 : unpack_u32(&in);
	count = unpack_u32(&in);
	if (in.failed || !known || count > ENV_MAX || state_file->spec.own > count)
		return false;
	state_file->env = mem_new((count + 1) * sizeof(*state_file->env));
	for (uint32_t i = 0; i < count; i++)
		state_file->env[i] = unpack_text(&in, STATE_FILE_MAX).at;
	state_file->spec.env = (const char *const *)state_file->env;
	return unpack_end(&in);
}

fallible state_file_read(struct box *box, uint32_t number, struct state_file **out)
{
	struct state_file *state_file;
	char *bytes = NULL;
	size_t len = 0;

	*out = NULL;
	TRY(box_file_read(box, 's', number, &bytes, &len));
	state_file = mem_new_of(struct state_file);
	state_file->bytes = bytes;
	if (len && state_file_decode(state_file, len))
		*out = state_file;
	else
		state_file_free(state_file);
	return OK;
}

void state_file_free(struct state_file *state_file)
{
	if (!state_file)
		return;
	free(state_file->env);
	free(state_file->bytes);
	free(state_file);
}
