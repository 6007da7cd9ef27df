// Counts TLS records without application data, and each further message within one: hundreds fit.
// The callback cannot stop the library, but it can remove the library's input: the call then ends
// with the current record.
#include "loop/chatter.h"

#include "base/clock.h"

static void chatter_count(struct chatter *chatter, SSL *ssl)
{
	int64_t now = clock_ms();
	int64_t paid = (now - chatter->since_ms) / 1000;

	if (paid > 0) {
		chatter->count -= paid < chatter->count ? (uint32_t)paid : chatter->count;
		chatter->since_ms = now;
	}
	if (++chatter->count <= CHATTER_MAX || chatter->over)
		return;
	chatter->over = true;
	SSL_set0_rbio(ssl, BIO_new(BIO_s_null()));
}

static void on_message(int is_ours, int version, int type, const void *bytes, size_t len, SSL *ssl,
		       void *arg)
{
	struct chatter *chatter = arg;
	const uint8_t *first = bytes;

	(void)version;
	if (is_ours || !len)
		return;
	// In TLS 1.3 the header type is always application data; the inner type is the real one.
	if ((type == SSL3_RT_HEADER || type == SSL3_RT_INNER_CONTENT_TYPE) &&
	    *first != SSL3_RT_APPLICATION_DATA) {
		chatter->fresh = true;
		chatter_count(chatter, ssl);
	} else if (type == SSL3_RT_HANDSHAKE && !chatter->fresh) {
		chatter_count(chatter, ssl);
	} else if (type == SSL3_RT_HANDSHAKE) {
		chatter->fresh = false; // the first of its record is counted
	}
}

void chatter_watch(struct chatter *chatter, SSL *ssl)
{
	*chatter = (struct chatter){.since_ms = clock_ms()};
	SSL_set_msg_callback_arg(ssl, chatter);
	SSL_set_msg_callback(ssl, on_message);
}
