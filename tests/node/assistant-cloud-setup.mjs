// Threads of assistant-ui on a Django site. In a React app: useChatRuntime({ cloud }).

import { AssistantCloud } from "assistant-cloud";

/**
 * @param {string} baseUrl where django_agent_sessions.rest.chat.assistant_ui.urls is included
 * @param {() => Promise<string | null>} fetchToken gets a JWT with `exp` from your site, or null if no user is logged in
 */
export function threadsOf(baseUrl, fetchToken) {
  return new AssistantCloud({ baseUrl, authToken: fetchToken, telemetry: false });
}

/** Gives all threads, page by page. */
export async function* allThreads(cloud, { archived = false } = {}) {
  let after;
  for (;;) {
    const { threads } = await cloud.threads.list({
      is_archived: archived,
      limit: 20,
      ...(after ? { after } : {}),
    });
    yield* threads;
    if (threads.length < 20) return;
    after = threads.at(-1).id;
  }
}
