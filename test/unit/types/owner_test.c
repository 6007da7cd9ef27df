#include "types/owner.h"

#include "tap.h"

static const char *derive(const char *org, const char *user, const char *bot, const char *session,
			  bool isolated, const char *tag)
{
	static struct owner_route route;
	struct owner owner = {str_of(org), str_of(user), str_of(bot), str_of(session)};

	owner_derive(&owner, isolated, str_of(tag), &route);
	return route.id;
}

TEST(vectors, "the golden vectors hold for every kind of owner")
{
	CHECK_STR(derive("org-id", "user-id", NULL, "s", false, NULL),
		  "org-aa6ba1f356e062c430f121b97b5fd9cfd64c51487e5f28c5");
	CHECK_STR(derive(NULL, "user-id", NULL, "s", false, NULL),
		  "usr-3c060fe2d53dd0b6e7a7e03084b290b64c8e0f67a8988161");
	CHECK_STR(derive("org-id", "user-id", "reviewer", "s", false, NULL),
		  "bot-4415e0ae1dcbda7236e3bf04b66f13344682f349eac4500d");
	CHECK_STR(derive(NULL, "user-id", "reviewer", "s", false, NULL),
		  "ubt-fb0f08bd868516e812f84fc34ddc327364046281c8e4c978");
	CHECK_STR(derive("org-id", "user-id", "reviewer", "agent_abc123", true, NULL),
		  "ses-51256c9fcd04ef0144d0afcdfb9ffb2abc280ff2e0bae370");
	CHECK(strcmp(derive("org-id", "other", NULL, "s", false, NULL),
		     "org-aa6ba1f356e062c430f121b97b5fd9cfd64c51487e5f28c5") != 0);
}

TEST(tag, "a tag moves shared ids and leaves isolated ones")
{
	CHECK_STR(derive("org-id", "user-id", NULL, "s", false, "shared-v2"),
		  "org-7d891a9e4905bb0d5ff8dffcb99ba76973039c70340665b0");
	CHECK_STR(derive("org-id", "user-id", NULL, "agent_abc123", true, "shared-v2"),
		  "ses-51256c9fcd04ef0144d0afcdfb9ffb2abc280ff2e0bae370");
	CHECK(owner_is_label(STR("shared-v2")) && !owner_is_label(STR("a:b")) &&
	      !owner_is_label(STR("")));
}

TEST(slot, "the second slot has the prefix of the first and a hash of its own")
{
	char id[ID_BOX_LEN + 1];

	owner_slot("org-aa6ba1f356e062c430f121b97b5fd9cfd64c51487e5f28c5", id);
	CHECK_STR(id, "org-b9e1f02739c1b7385f15c7dcee85e90768d49adaf2c82509");
}

TEST(route, "a route keeps kind, key and tag")
{
	struct owner owner = {STR("org-id"), STR("user-id"), STR("b"), STR("s")};
	struct owner_route route;

	owner_derive(&owner, false, STR("t"), &route);
	CHECK(route.kind == OWNER_BOT);
	CHECK_STR(route.key, "org-id__user-id__bot:b");
	CHECK_STR(route.tag, "t");
	owner_derive(&owner, true, STR("t"), &route);
	CHECK(route.kind == OWNER_SES);
	CHECK_STR(route.key, "s");
	CHECK_STR(route.tag, "");
}

TEST(checks, "parts that could be read in two ways are refused")
{
	static const char *const bad[] = {"a__b",     "_a", "a_",	  "a\nb", "a\x7f",
					  "\xff\xfe", "",   "x\xc2\x85y", "__",	  "_"};
	static const char *const good[] = {"oauth/x:1", "a_b", "käse", "#@!",
					   "..",	".",   "/",    "a b"};
	char lengthy[OWNER_PART_MAX + 2];

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK_ERR(owner_check_part(str_of(bad[i]), "user"), INVALID);
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		CHECK_OK(owner_check_part(str_of(good[i]), "user"));
	memset(lengthy, 'x', sizeof(lengthy));
	CHECK_OK(owner_check_part((struct str){lengthy, OWNER_PART_MAX}, "user"));
	CHECK_ERR(owner_check_part((struct str){lengthy, OWNER_PART_MAX + 1}, "user"), INVALID);
	CHECK_ERR(owner_check_part((struct str){"a\0b", 3}, "user"), INVALID);
}

TEST(owners, "an owner needs a user, and what is given must hold")
{
	CHECK_OK(owner_check(&(struct owner){.user = STR("u"), .session = STR("s")}));
	CHECK_ERR(owner_check(&(struct owner){.session = STR("s")}), INVALID);
	CHECK_ERR(
		owner_check(&(struct owner){.org = STR(""), .user = STR("u"), .session = STR("s")}),
		INVALID);
	CHECK_ERR(owner_check(
			  &(struct owner){.user = STR("u"), .bot = STR("b_"), .session = STR("s")}),
		  INVALID);
}

TEST(chosen, "a list chooses organisations byte for byte, and * chooses everyone")
{
	struct str list = STR(" acme , beta ,,");

	CHECK(owner_is_chosen(list, STR("acme")));
	CHECK(owner_is_chosen(list, STR("beta")));
	CHECK(!owner_is_chosen(list, STR("gamma")));
	CHECK(!owner_is_chosen(list, STR("ACME")));
	CHECK(!owner_is_chosen(list, STR("")));
	CHECK(!owner_is_chosen(STR(""), STR("")));
	CHECK(!owner_is_chosen((struct str){0}, STR("acme")));
	CHECK(owner_is_chosen(STR("x, *"), STR("")));
	CHECK(owner_is_chosen(STR("*"), (struct str){0}));
}

TEST(strict, "only the five prefixes with 48 lower-case digits are ids")
{
	static const char *const bad[] = {
		"ses-ABC",
		"ses-51256c9fcd04ef0144d0afcdfb9ffb2abc280ff2e0bae37",
		"ses-51256c9fcd04ef0144d0afcdfb9ffb2abc280ff2e0bae3700",
		"xyz-51256c9fcd04ef0144d0afcdfb9ffb2abc280ff2e0bae370",
		"box-51256c9fcd04ef0144d0afcdfb9ffb2abc280ff2e0bae370",
		"ses-51256C9fcd04ef0144d0afcdfb9ffb2abc280ff2e0bae370",
		"ses_51256c9fcd04ef0144d0afcdfb9ffb2abc280ff2e0bae370",
		"../../etc__x",
	};
	enum owner_class class;
	enum owner_kind kind;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK(!owner_is_id(str_of(bad[i]), &kind));
	CHECK(owner_is_id(STR("ses-51256c9fcd04ef0144d0afcdfb9ffb2abc280ff2e0bae370"), &kind));
	CHECK(kind == OWNER_SES);
	CHECK(!owner_class_of(STR("xyz-51256c9fcd04ef0144d0afcdfb9ffb2abc280ff2e0bae370"), &class));
}

TEST(classes, "the size class follows the prefix alone")
{
	enum owner_class class;

	CHECK(owner_class_of(STR("ses-51256c9fcd04ef0144d0afcdfb9ffb2abc280ff2e0bae370"), &class));
	CHECK(class == OWNER_SMALL);
	CHECK(owner_class_of(STR("ubt-51256c9fcd04ef0144d0afcdfb9ffb2abc280ff2e0bae370"), &class));
	CHECK(class == OWNER_STANDARD);
	CHECK(owner_class_of(STR("acme__oauth/x:1"), &class) && class == OWNER_STANDARD);
}

TEST(legacy, "legacy ids have two or three parts and are kept under a hash")
{
	char id[ID_BOX_LEN + 1], other[ID_BOX_LEN + 1];

	CHECK(owner_is_legacy(STR("a__b")) && owner_is_legacy(STR("a__b__c")));
	CHECK(!owner_is_legacy(STR("a")) && !owner_is_legacy(STR("a__b__c__d")));
	CHECK(!owner_is_legacy(STR("a__")) && !owner_is_legacy(STR("__b")));
	CHECK(!owner_is_legacy(STR("a____b")) && !owner_is_legacy(STR("a\n__b")));
	owner_legacy_id(STR("acme__oauth/x:1"), id);
	owner_legacy_id(STR("../../__x"), other);
	CHECK(strlen(id) == ID_BOX_LEN && strlen(other) == ID_BOX_LEN && strcmp(id, other) != 0);
	CHECK(!strchr(other, '/') && !strchr(other, '.'));
}

TEST(names, "session ids that cove makes hold 128 random bits and are legal owners' parts")
{
	char a[OWNER_SESSION_LEN + 1], b[OWNER_SESSION_LEN + 1], dir[ID_BOX_LEN + 1];

	owner_new_session(a);
	owner_new_session(b);
	CHECK(strlen(a) == OWNER_SESSION_LEN && strcmp(a, b) != 0);
	CHECK_OK(owner_check_part(str_of(a), "session"));
	owner_directory(STR("agent_abc123"), dir);
	CHECK_STR(dir, "ses-51256c9fcd04ef0144d0afcdfb9ffb2abc280ff2e0bae370");
}
