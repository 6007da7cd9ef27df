// The card of a session, "BOX/sN": a magic word and a version, then what struct session_spec says,
// and the changes of the environment that no command has carried to the shell yet. What it says is
// read by the next daemon; a card of another version is no card.
#include <stdlib.h>

#include "base/mem.h"
#include "box/card.h"
#include "box/session_inner.h"
#include "wire/pack.h"

#define MAGIC "COVECARD"
#define VERSION 2 // 1 did not say which of the environment is the session's own
#define CARD_MAX (8u << 20)
#define ENV_MAX 8192
#define TEXT_EXTRA 8

static size_t room_for(const struct session *session)
{
	size_t size = 128 + strlen(session->id) + strlen(session->start_cwd) + session->changes.len;

	for (char **at = session->env; *at; at++)
		size += strlen(*at) + TEXT_EXTRA;
	return size;
}

static char *card_encode(const struct session *session, size_t *out_len)
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

void card_erase(struct session *session)
{
	if (session->card && !session->listed)
		card_erase_file(session->box, 's', session->card);
}

// Deleted while it was being written.
static void card_remove_stale(struct session *session)
{
	if (!session->listed)
		card_remove(session);
}

void card_write(struct session *session)
{
	auto_free char *bytes = NULL;
	size_t len;

	if (!session->card || !session->listed)
		return;
	bytes = card_encode(session, &len);
	card_write_file(session->box, 's', session->card, bytes, len);
	card_remove_stale(session);
}

static void touch_task(void *arg)
{
	struct session *session = arg;

	task_shield(true);
	while (session->card_stale) {
		session->card_stale = false;
		card_write(session);
	}
	session->card_busy = false;
	card_remove_stale(session);
	bell_ring(&session->changed);
	session_drop(session);
}

void card_touch(struct session *session)
{
	if (!session->card)
		return;
	session->card_stale = true;
	if (session->card_busy)
		return;
	session->card_busy = true;
	session_hold(session);
	task_start(session->box->loop, "session.card", touch_task, session);
}

static bool card_decode(struct card *card, size_t len)
{
	struct unpack in;
	uint32_t count, version;
	bool known;

	unpack_init(&in, card->bytes, len);
	known = str_is(unpack_text(&in, sizeof(MAGIC)), MAGIC);
	version = unpack_u32(&in);
	known &= version == 1 || version == VERSION;
	card->id = unpack_text(&in, SESSION_ID_MAX);
	card->spec.cwd = unpack_text(&in, CARD_MAX).at;
	card->spec.timeout_ms = unpack_u64(&in);
	card->spec.output_cap = unpack_u64(&in);
	card->spec.cpu_milli = unpack_u32(&in);
	card->changes = unpack_text(&in, CARD_MAX);
	card->spec.own = version == 1 ? 0 : unpack_u32(&in);
	count = unpack_u32(&in);
	if (in.failed || !known || count > ENV_MAX || card->spec.own > count)
		return false;
	card->env = mem_new((count + 1) * sizeof(*card->env));
	for (uint32_t i = 0; i < count; i++)
		card->env[i] = unpack_text(&in, CARD_MAX).at;
	card->spec.env = (const char *const *)card->env;
	return unpack_end(&in);
}

fallible card_read(struct box *box, uint32_t number, struct card **out)
{
	struct card *card;
	char *bytes = NULL;
	size_t len = 0;

	*out = NULL;
	TRY(card_read_file(box, 's', number, &bytes, &len));
	card = mem_new_of(struct card);
	card->bytes = bytes;
	if (len && card_decode(card, len))
		*out = card;
	else
		card_free(card);
	return OK;
}

void card_free(struct card *card)
{
	if (!card)
		return;
	free(card->env);
	free(card->bytes);
	free(card);
}
