// The settings of sinks: what is accepted is whole, and an address never ends a line of SMTP.
#include "types/sink.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str text = {(const char *)bytes, len}, host;
	struct sink sinks[SINKS_MAX] = {0};
	size_t count = 0;
	uint16_t port = 0;
	auto_err err = sinks_read(text, sinks, &count);

	for (size_t i = 0; !err && i < count; i++) {
		bool mails = sinks[i].kind == SINK_EMAIL;

		MUST(sinks[i].name[0] && (sinks[i].warnings || sinks[i].criticals));
		MUST(mails ? sinks[i].relay && sinks[i].from && sinks[i].to : sinks[i].url != NULL);
		MUST(!mails || (sink_is_address(str_of(sinks[i].from)) &&
				!strpbrk(sinks[i].from, "\r\n <>")));
		MUST(!mails || !strpbrk(sinks[i].to, "\r\n<>"));
		for (size_t k = 0; k < i; k++)
			MUST(strcmp(sinks[i].name, sinks[k].name) != 0);
	}
	MUST(!err || count == 0);
	sinks_done(sinks, count);
	if (sink_relay(text, &host, &port))
		MUST(host.len && port && is_within(host, text));
	return 0;
}
