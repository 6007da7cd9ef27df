#include "model/ticket.h"

#include "model/hostname.h"
#include "tap.h"

static const uint8_t key[SECRET_HASH] = {1, 2, 3};
static const uint8_t other_key[SECRET_HASH] = {1, 2, 4};
#define BOX "box-0123456789abcdef0123456789abcdef0123456789abcdef"
static const struct ticket kept = {.box = BOX, .port = 8080, .token = "my_token"};

TEST(tokens, "a token is 1 to 16 of a-z, 0-9 and _; a made one is among them and never the same")
{
	char one[TICKET_TOKEN_MAX + 1], two[TICKET_TOKEN_MAX + 1];

	ticket_make(one);
	ticket_make(two);
	CHECK(strlen(one) == TICKET_TOKEN_MAX && ticket_is_token(str_of(one)));
	CHECK(strcmp(one, two) != 0);
	CHECK(ticket_is_token(STR("a")) && ticket_is_token(STR("0123456789abcde_")));
	CHECK(!ticket_is_token(STR("")) && !ticket_is_token(STR("0123456789abcdefg")));
	CHECK(!ticket_is_token(STR("a-b")) && !ticket_is_token(STR("A")));
	CHECK(!ticket_is_token((struct str){"a\0b", 3}));
}

TEST(right, "the right token opens, every other is wrong")
{
	static const char *const wrong[] = {"",		 "my_toke",	      "my_tokenx",
					    "my_tokem",	 "xy_token",	      "MY_TOKEN",
					    "my_token ", "my_token\n",	      "my_token\xff",
					    "a-b",	 "my_token_my_token_"};

	CHECK(ticket_check(key, &kept, STR("my_token"), 5) == TICKET_GOOD);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		CHECK(ticket_check(key, &kept, str_of(wrong[i]), 5) == TICKET_WRONG);
	CHECK(ticket_check(key, &kept, (struct str){"my_token\0", 9}, 5) == TICKET_WRONG);
	CHECK(ticket_check(key, NULL, STR("my_token"), 5) == TICKET_WRONG);
	CHECK(ticket_check(key, NULL, STR("0000000000000000"), 5) == TICKET_WRONG);
	CHECK(ticket_check(key, NULL, STR(""), 5) == TICKET_WRONG);
}

TEST(end, "a token that ended is over, and a wrong one is wrong still")
{
	struct ticket ends = kept;

	ends.ends_ms = 1000;
	CHECK(ticket_check(key, &ends, STR("my_token"), 999) == TICKET_GOOD);
	CHECK(ticket_check(key, &ends, STR("my_token"), 1000) == TICKET_OVER);
	CHECK(ticket_check(key, &ends, STR("my_tokem"), 1000) == TICKET_WRONG);
}

TEST(links, "a signed link opens until its end, for what it was signed for")
{
	const int64_t now = 1794700000000;
	char link[TICKET_LINK_LEN + 1], changed[TICKET_LINK_LEN + 1];
	struct ticket other = kept;

	ticket_sign(key, &kept, now + 1500, link);
	CHECK(strlen(link) == TICKET_LINK_LEN && ticket_is_link(str_of(link)));
	CHECK(!ticket_is_token(str_of(link)));
	CHECK(ticket_check(key, &kept, str_of(link), now) == TICKET_GOOD);
	CHECK(ticket_check(key, &kept, str_of(link), now + 1500) == TICKET_GOOD);
	CHECK(ticket_check(key, &kept, str_of(link), now + 2000) == TICKET_OVER);
	CHECK(ticket_check(other_key, &kept, str_of(link), now) == TICKET_WRONG);
	other.port = 8081;
	CHECK(ticket_check(key, &other, str_of(link), now) == TICKET_WRONG);
	other = kept;
	other.token = "new_token";
	CHECK(ticket_check(key, &other, str_of(link), now) == TICKET_WRONG);
	other = kept;
	other.box = "box-1123456789abcdef0123456789abcdef0123456789abcdef";
	CHECK(ticket_check(key, &other, str_of(link), now) == TICKET_WRONG);
	CHECK(ticket_check(key, NULL, str_of(link), now) == TICKET_WRONG);
	for (size_t i = 0; i < TICKET_LINK_LEN; i++) {
		memcpy(changed, link, sizeof(changed));
		changed[i] = changed[i] == 'a' ? 'b' : 'a';
		CHECK(ticket_check(key, &kept, str_of(changed), now) == TICKET_WRONG);
	}
	other = kept;
	other.ends_ms = now;
	CHECK(ticket_check(key, &other, str_of(link), now) == TICKET_OVER);
}

TEST(bounds, "ends before the beginning and behind all time are held")
{
	char link[TICKET_LINK_LEN + 1];

	ticket_sign(key, &kept, -5, link);
	CHECK(ticket_check(key, &kept, str_of(link), 0) == TICKET_OVER);
	ticket_sign(key, &kept, INT64_MAX, link);
	CHECK(ticket_check(key, &kept, str_of(link), 1794700000000) == TICKET_GOOD);
}

TEST(in_host, "a signed link fits into a preview's host")
{
	struct hostname_preview preview = {.port = 65535, .id = "0123456789ab"}, again;
	auto_buf host = BUF_INIT(256);

	ticket_sign(key, &kept, 1794700000000, preview.token);
	CHECK(hostname_write_preview(&preview, "preview.test", &host));
	CHECK(hostname_read_preview(buf_view(&host), "preview.test", &again));
	CHECK_STR(again.token, preview.token);
	CHECK(ticket_check(key, &kept, str_of(again.token), 0) == TICKET_GOOD);
}
