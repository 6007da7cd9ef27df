#include "manager/exposed_ports.h"

#include "tap.h"

TEST(order, "ports are kept by number, each once, with its name")
{
	struct exposed_ports book = {0};

	CHECK(exposed_ports_add(&book, 8080, STR("web")));
	CHECK(exposed_ports_add(&book, 80, STR("")));
	CHECK(exposed_ports_add(&book, 65535, STR("last")));
	CHECK(book.count == 3 && book.at[0].port == 80 && book.at[2].port == 65535);
	CHECK_STR(exposed_ports_find(&book, 8080)->name, "web");
	CHECK(!exposed_ports_find(&book, 80)->name && !exposed_ports_find(&book, 81));
	CHECK(exposed_ports_drop(&book, 8080) && !exposed_ports_drop(&book, 8080));
	CHECK(book.count == 2 && !exposed_ports_find(&book, 8080));
	exposed_ports_done(&book);
}

TEST(full, "a full register takes no more")
{
	struct exposed_ports book = {0};

	for (int i = 1; i <= EXPOSED_PORTS_MAX; i++)
		CHECK(exposed_ports_add(&book, (uint16_t)i, STR("")));
	CHECK(!exposed_ports_add(&book, 9999, STR("")));
	CHECK(exposed_ports_drop(&book, 1) && exposed_ports_add(&book, 9999, STR("")));
	exposed_ports_done(&book);
}

TEST(tokens, "each port has a token of its own from the start, and a port is found by its token")
{
	struct exposed_ports book = {0};
	char first[PREVIEW_TOKEN_TOKEN_MAX + 1];

	snprintf(first, sizeof(first), "%s", exposed_ports_add(&book, 80, STR(""))->token);
	CHECK(preview_token_is_token(str_of(first)));
	CHECK(strcmp(exposed_ports_add(&book, 81, STR(""))->token, first) != 0);
	CHECK(exposed_ports_has_token(&book, str_of(first), 81));
	CHECK(!exposed_ports_has_token(&book, str_of(first), 80));
	CHECK(exposed_ports_get(&book, 81) && !exposed_ports_get(&book, 82));
	exposed_ports_done(&book);
}
