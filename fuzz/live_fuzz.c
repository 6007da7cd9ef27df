// Messages of clients of /v1/live: what is accepted is bounded and names a subscription.
#include "types/live.h"

#include "fuzz.h"

static enum live_topic fuzz_topic_of(void *arg, const char *id)
{
	(void)arg;
	return (enum live_topic)((unsigned char)id[0] % (LIVE_TOPIC_COUNT + 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	static struct live_message message;
	struct str text = {(const char *)bytes, len};
	auto_err err = live_message_read(text, fuzz_topic_of, NULL, &message);

	MUST(strlen(message.id) <= LIVE_ID_MAX);
	if (err)
		return 0;
	MUST(message.id[0] && message.op <= LIVE_ACK && message.topic < LIVE_TOPIC_COUNT);
	MUST(message.terms.kind_count <= LIVE_KINDS_MAX);
	MUST(message.terms.box_count <= LIVE_BOXES_MAX);
	MUST(!(message.terms.fields & ~(unsigned)LIVE_FIELDS_ALL));
	if (message.op == LIVE_SUB || message.op == LIVE_SET)
		MUST(message.terms.every_ms >= LIVE_EVERY_MIN_MS &&
		     message.terms.every_ms <= LIVE_EVERY_MAX_MS);
	return 0;
}
