// Sends a notice through an SMTP relay: EHLO, STARTTLS unless the relay is on this host, AUTH PLAIN
// if there is a user, MAIL, RCPT, DATA. Replies are parsed by codec/smtp; the dialogue stops at the
// first that is not as expected. The addresses were checked when the configuration was read.
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/secret.h"
#include "codec/smtp.h"
#include "monitor/delivery.h"
#include "monitor/reach.h"

#define LINE_MAX_BYTES 1024
#define MESSAGE_MAX (256 * 1024)

struct mail {
	struct reach reach;
	struct buf got;
	bool has_starttls, has_plain; // of the last reply
};

// Waits for the next reply, whose code must be in the hundred of `wanted`.
static fallible mail_expect(struct mail *mail, int wanted)
{
	struct smtp_reply reply;
	enum smtp_verdict verdict;

	while ((verdict = smtp_reply(buf_view(&mail->got), &reply)) == SMTP_MORE) {
		char piece[1024];
		size_t got = 0;

		TRY(reach_read(&mail->reach, piece, sizeof(piece), &got));
		if (!got)
			return err_new(BAD_PEER, "peer_gone", "the relay closed the connection");
		buf_add(&mail->got, piece, got);
	}
	if (verdict != SMTP_DONE)
		return err_new(BAD_PEER, "bad_reply", "the relay's answer is malformed");
	mail->has_starttls = reply.has_starttls;
	mail->has_plain = reply.has_plain;
	if (reply.code / 100 != wanted)
		return err_new(BAD_PEER, "refused", "the relay answered %d", reply.code);
	// What follows was sent before we asked: after STARTTLS it would be taken for the answer.
	buf_drop_front(&mail->got, reply.size);
	return OK;
}

static fallible mail_say(struct mail *mail, int wanted, const char *verb, struct str argument,
			 const char *end)
{
	on_exit_call(secret_buf_done) struct buf line = BUF_INIT(LINE_MAX_BYTES);

	line.is_secret = true;
	buf_fmt(&line, "%s" STR_FMT "%s\r\n", verb, STR_ARG(argument), end);
	if (!buf_ok(&line))
		return err_new(TOO_LARGE, "bad_address", "an address is too long");
	TRY(reach_write(&mail->reach, line.at, line.len));
	return mail_expect(mail, wanted);
}

static fallible mail_greet(struct mail *mail)
{
	TRY(mail_expect(mail, 2));
	TRY(mail_say(mail, 2, "EHLO ", STR("cove.localdomain"), ""));
	if (mail->reach.is_loopback)
		return OK;
	if (!mail->has_starttls)
		return err_new(BAD_PEER, "no_starttls", "the relay offers no STARTTLS");
	TRY(mail_say(mail, 2, "STARTTLS", STR(""), ""));
	if (mail->got.len)
		return err_new(BAD_PEER, "bad_reply", "the relay said more before TLS");
	TRY(reach_secure(&mail->reach));
	return mail_say(mail, 2, "EHLO ", STR("cove.localdomain"), "");
}

// After STARTTLS, or to a relay on this host: the password is in clear text.
static fallible mail_authenticate(struct mail *mail, const struct delivery *delivery)
{
	on_exit_call(secret_buf_done) struct buf word = BUF_INIT(LINE_MAX_BYTES);

	word.is_secret = true;
	if (!delivery->sink->user)
		return OK;
	if (!mail->has_plain)
		return err_new(BAD_PEER, "no_auth", "the relay offers no AUTH PLAIN");
	if (!smtp_put_plain(&word, str_of(delivery->sink->user), delivery->secret))
		return err_new(INVALID, "bad_secret",
			       "user or password of the relay is too long or has a NUL");
	return mail_say(mail, 2, "AUTH PLAIN ", buf_view(&word), "");
}

static void mail_put_message(struct buf *out, const struct delivery *delivery)
{
	auto_buf id = BUF_INIT(256), date = BUF_INIT(64);

	clock_http(clock_wall_ms(), &date);
	// "GMT" of HTTP is "+0000" in mail.
	smtp_put_header(out, "Date",
			(struct str){date.at, date.len >= 3 ? date.len - 3 : date.len});
	if (buf_ok(out) && out->len >= 2) {
		out->len -= 2;
		buf_text(out, "+0000\r\n");
	}
	buf_fmt(&id, "<%s@cove>", delivery->id);
	smtp_put_header(out, "From", str_of(delivery->sink->from));
	smtp_put_header(out, "To", str_of(delivery->sink->to));
	smtp_put_header(out, "Subject", str_of(delivery->subject));
	smtp_put_header(out, "Message-ID", buf_view(&id));
	smtp_put_header(out, "Auto-Submitted", STR("auto-generated"));
	smtp_put_header(out, "MIME-Version", STR("1.0"));
	smtp_put_header(out, "Content-Type", STR("text/plain; charset=us-ascii"));
	buf_text(out, "\r\n");
	smtp_put_body(out, delivery->body);
}

static fallible mail_exchange(struct mail *mail, const struct delivery *delivery)
{
	struct str rest = str_of(delivery->sink->to), to;
	auto_buf message = BUF_INIT(MESSAGE_MAX);

	TRY(mail_greet(mail));
	TRY(mail_authenticate(mail, delivery));
	TRY(mail_say(mail, 2, "MAIL FROM:<", str_of(delivery->sink->from), ">"));
	while (rest.len && str_cut(&rest, ',', &to))
		TRY(mail_say(mail, 2, "RCPT TO:<", str_trim(to), ">"));
	TRY(mail_say(mail, 3, "DATA", STR(""), ""));
	mail_put_message(&message, delivery);
	if (!buf_ok(&message))
		return err_new(TOO_LARGE, "too_large", "the notice is too long");
	TRY(reach_write(&mail->reach, message.at, message.len));
	TRY(mail_expect(mail, 2));
	// The message is accepted, whatever comes now.
	err_free(mail_say(mail, 2, "QUIT", STR(""), ""));
	return OK;
}

fallible delivery_mail(const struct delivery *delivery)
{
	struct mail mail = {.reach = {.trust = delivery->trust},
			    .got = BUF_INIT(SMTP_REPLY_MAX * 2)};
	struct str host = {0};
	uint16_t port = 0;
	struct err *err;

	if (!sink_relay(str_of(delivery->sink->relay), &host, &port))
		return err_new(INVALID, "bad_relay", "the relay is malformed");
	err = reach_open(&mail.reach, delivery->loop, delivery->hosts, host, port);
	if (!err)
		err = mail_exchange(&mail, delivery);
	reach_close(&mail.reach);
	buf_done(&mail.got);
	return err;
}
