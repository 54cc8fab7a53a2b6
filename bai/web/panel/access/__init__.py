"""Who looks at a page: `cookies` keep what they logged in with, `visitor` asks again who that is with each
request, `same_origin` turns away what other sites have browsers send.
"""
