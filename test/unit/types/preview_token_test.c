#include "types/preview_token.h"

#include "tap.h"
#include "types/hostname.h"

static const uint8_t key[SECRET_HASH] = {1, 2, 3};
static const uint8_t other_key[SECRET_HASH] = {1, 2, 4};
#define BOX "box-0123456789abcdef0123456789abcdef0123456789abcdef"
static const struct preview_token kept = {.box = BOX, .port = 8080, .token = "my_token"};

TEST(tokens, "a token is 1 to 16 of a-z, 0-9 and _; a made one is among them and never the same")
{
	char one[PREVIEW_TOKEN_TOKEN_MAX + 1], two[PREVIEW_TOKEN_TOKEN_MAX + 1];

	preview_token_make(one);
	preview_token_make(two);
	CHECK(strlen(one) == PREVIEW_TOKEN_TOKEN_MAX && preview_token_is_token(str_of(one)));
	CHECK(strcmp(one, two) != 0);
	CHECK(preview_token_is_token(STR("a")) && preview_token_is_token(STR("0123456789abcde_")));
	CHECK(!preview_token_is_token(STR("")) &&
	      !preview_token_is_token(STR("0123456789abcdefg")));
	CHECK(!preview_token_is_token(STR("a-b")) && !preview_token_is_token(STR("A")));
	CHECK(!preview_token_is_token((struct str){"a\0b", 3}));
}

TEST(right, "the right token opens, every other is wrong")
{
	static const char *const wrong[] = {"",		 "my_toke",	      "my_tokenx",
					    "my_tokem",	 "xy_token",	      "MY_TOKEN",
					    "my_token ", "my_token\n",	      "my_token\xff",
					    "a-b",	 "my_token_my_token_"};

	CHECK(preview_token_check(key, &kept, STR("my_token"), 5) == PREVIEW_TOKEN_GOOD);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		CHECK(preview_token_check(key, &kept, str_of(wrong[i]), 5) == PREVIEW_TOKEN_WRONG);
	CHECK(preview_token_check(key, &kept, (struct str){"my_token\0", 9}, 5) ==
	      PREVIEW_TOKEN_WRONG);
	CHECK(preview_token_check(key, NULL, STR("my_token"), 5) == PREVIEW_TOKEN_WRONG);
	CHECK(preview_token_check(key, NULL, STR("0000000000000000"), 5) == PREVIEW_TOKEN_WRONG);
	CHECK(preview_token_check(key, NULL, STR(""), 5) == PREVIEW_TOKEN_WRONG);
}

TEST(end, "a token that ended is over, and a wrong one is wrong still")
{
	struct preview_token ends = kept;

	ends.ends_ms = 1000;
	CHECK(preview_token_check(key, &ends, STR("my_token"), 999) == PREVIEW_TOKEN_GOOD);
	CHECK(preview_token_check(key, &ends, STR("my_token"), 1000) == PREVIEW_TOKEN_OVER);
	CHECK(preview_token_check(key, &ends, STR("my_tokem"), 1000) == PREVIEW_TOKEN_WRONG);
}

TEST(links, "a signed link opens until its end, for what it was signed for")
{
	const int64_t now = 1794700000000;
	char link[PREVIEW_TOKEN_LINK_LEN + 1], changed[PREVIEW_TOKEN_LINK_LEN + 1];
	struct preview_token other = kept;

	preview_token_sign(key, &kept, now + 1500, link);
	CHECK(strlen(link) == PREVIEW_TOKEN_LINK_LEN && preview_token_is_link(str_of(link)));
	CHECK(!preview_token_is_token(str_of(link)));
	CHECK(preview_token_check(key, &kept, str_of(link), now) == PREVIEW_TOKEN_GOOD);
	CHECK(preview_token_check(key, &kept, str_of(link), now + 1500) == PREVIEW_TOKEN_GOOD);
	CHECK(preview_token_check(key, &kept, str_of(link), now + 2000) == PREVIEW_TOKEN_OVER);
	CHECK(preview_token_check(other_key, &kept, str_of(link), now) == PREVIEW_TOKEN_WRONG);
	other.port = 8081;
	CHECK(preview_token_check(key, &other, str_of(link), now) == PREVIEW_TOKEN_WRONG);
	other = kept;
	other.token = "new_token";
	CHECK(preview_token_check(key, &other, str_of(link), now) == PREVIEW_TOKEN_WRONG);
	other = kept;
	other.box = "box-1123456789abcdef0123456789abcdef0123456789abcdef";
	CHECK(preview_token_check(key, &other, str_of(link), now) == PREVIEW_TOKEN_WRONG);
	CHECK(preview_token_check(key, NULL, str_of(link), now) == PREVIEW_TOKEN_WRONG);
	for (size_t i = 0; i < PREVIEW_TOKEN_LINK_LEN; i++) {
		memcpy(changed, link, sizeof(changed));
		changed[i] = changed[i] == 'a' ? 'b' : 'a';
		CHECK(preview_token_check(key, &kept, str_of(changed), now) == PREVIEW_TOKEN_WRONG);
	}
	other = kept;
	other.ends_ms = now;
	CHECK(preview_token_check(key, &other, str_of(link), now) == PREVIEW_TOKEN_OVER);
}

TEST(bounds, "ends before the beginning and behind all time are held")
{
	char link[PREVIEW_TOKEN_LINK_LEN + 1];

	preview_token_sign(key, &kept, -5, link);
	CHECK(preview_token_check(key, &kept, str_of(link), 0) == PREVIEW_TOKEN_OVER);
	preview_token_sign(key, &kept, INT64_MAX, link);
	CHECK(preview_token_check(key, &kept, str_of(link), 1794700000000) == PREVIEW_TOKEN_GOOD);
}

TEST(in_host, "a signed link fits into a preview's host")
{
	struct hostname_preview preview = {.port = 65535, .id = "0123456789ab"}, again;
	auto_buf host = BUF_INIT(256);

	preview_token_sign(key, &kept, 1794700000000, preview.token);
	CHECK(hostname_write_preview(&preview, "preview.test", &host));
	CHECK(hostname_read_preview(buf_view(&host), "preview.test", &again));
	CHECK_STR(again.token, preview.token);
	CHECK(preview_token_check(key, &kept, str_of(again.token), 0) == PREVIEW_TOKEN_GOOD);
}

TEST(sandbox_token, "the token of a sandbox is of its id and its turn; links of it are taken back")
{
	char first[PREVIEW_TOKEN_BOX_LEN + 1], other[PREVIEW_TOKEN_BOX_LEN + 1],
		link[PREVIEW_TOKEN_LINK_LEN + 1];
	struct preview_token of = {"box-1", 80, first, 0};
	struct env_map labels = {0};
	auto_buf list = BUF_INIT(8192);

	preview_token_of_box(key, "box-1", &labels, first);
	CHECK(strlen(first) == PREVIEW_TOKEN_BOX_LEN && preview_token_is_box(str_of(first), first));
	preview_token_of_box(key, "box-2", &labels, other);
	CHECK(!preview_token_is_box(str_of(other), first));
	env_map_set(&labels, STR(PREVIEW_TOKEN_TURN), STR("1"));
	preview_token_of_box(key, "box-1", &labels, other);
	CHECK(!preview_token_is_box(str_of(other), first));
	CHECK(!preview_token_is_box((struct str){first, 5}, first));

	preview_token_sign(key, &of, 60000, link);
	CHECK(preview_token_check(key, &of, str_of(link), 59999) == PREVIEW_TOKEN_GOOD);
	CHECK(!preview_token_is_void(&labels, str_of(link)));
	CHECK(preview_token_add_void(&labels, str_of(link), 0, &list));
	env_map_set(&labels, STR(PREVIEW_TOKEN_VOID), buf_view(&list));
	CHECK(preview_token_is_void(&labels, str_of(link)));
	for (int i = 1; i <= PREVIEW_TOKEN_VOID_MAX; i++) {
		char more[PREVIEW_TOKEN_LINK_LEN + 1];

		preview_token_sign(key, &of, 60000 + i * 1000, more);
		buf_clear(&list);
		CHECK(preview_token_add_void(&labels, str_of(more), 0, &list) ==
		      (i < PREVIEW_TOKEN_VOID_MAX));
		if (i < PREVIEW_TOKEN_VOID_MAX)
			env_map_set(&labels, STR(PREVIEW_TOKEN_VOID), buf_view(&list));
	}
	buf_clear(&list);
	CHECK(preview_token_add_void(&labels, str_of(link), 200000, &list)); // all others are over
	CHECK_STR(list.at, link);
	env_map_done(&labels);
}
